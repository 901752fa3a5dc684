"""What levels 0 and 1 rest on, tried out: signals, limits, sync calls, namespaces, networks."""

from __future__ import annotations

import os
import resource
import select
import signal
import socket
import struct
import tempfile
from pathlib import Path
from typing import Final

import trio

from ..nemesis.clockshim.proof import REMEDY
from ..nemesis.levels import (
    FILTER,
    NETWORK,
    PIDFD,
    PRELOADED_CLOCK,
    PRIVATE_WORLD,
    PRLIMIT,
    RESETS,
    SECCOMP,
    SWITCH,
    TIME,
)
from ..nemesis.namespaces import (
    CLONE_NEWNET,
    CLONE_NEWNS,
    CLONE_NEWPID,
    CLONE_NEWTIME,
    MS_NODEV,
    MS_NOEXEC,
    MS_NOSUID,
    die_with_parent,
    inside_network,
    keep_mounts_private,
    leave,
    mount,
)
from ..nemesis.netlink.connections import Connections
from ..nemesis.netlink.filters import Filters
from ..nemesis.netlink.interfaces import Interfaces
from ..nemesis.private_network import DATA_NETWORK, PrivateNetwork
from ..nemesis.switch.control import Plan, Port
from ..nemesis.switch.switching import Switch
from .probing import LevelProbe, RefusedError
from .shim_probe import try_a_shim
from .sync_probe import stall_a_sync

_ANSWER_S: Final = 3.0
_SILENCE_S: Final = 0.1
_CUT_S: Final = 30.0
_SHIFT_S: Final = 1000
_PORT: Final = 7000
_NO_USER_NAMESPACES: Final = (
    "user namespaces are blocked (a container's seccomp filter, user.max_user_namespaces=0 or "
    "kernel.unprivileged_userns_clone=0): run as root, or use --level 0"
)
_APPARMOR: Final = Path("/proc/sys/kernel/apparmor_restrict_unprivileged_userns")
_NO_CAPABILITIES: Final = (
    "a policy leaves user namespaces without capabilities "
    "(kernel.apparmor_restrict_unprivileged_userns=1): run as root, or add an AppArmor profile"
)


def _leave(flags: int) -> None:
    """Leave namespaces; say which policy forbids it."""
    try:
        leave(flags)
    except OSError as error:
        is_restricted = _APPARMOR.exists() and _APPARMOR.read_text(encoding="ascii").strip() == "1"
        remedy = _NO_CAPABILITIES if is_restricted else _NO_USER_NAMESPACES
        raise RefusedError(str(error), remedy) from None


def _forked() -> int:
    """Fork; the child dies with the probe."""
    pid = os.fork()
    if pid == 0:
        die_with_parent()
    return pid


def _signals() -> str:
    pid = _forked()
    if pid == 0:
        while True:
            signal.pause()
    handle = os.pidfd_open(pid)
    signal.pidfd_send_signal(handle, signal.SIGSTOP)
    if os.waitid(os.P_PIDFD, handle, os.WSTOPPED) is None:
        raise RefusedError("a stopped process was not seen to stop")
    signal.pidfd_send_signal(handle, signal.SIGKILL)
    if not select.select([handle], [], [], _ANSWER_S)[0]:
        raise RefusedError("a killed process was not seen to end")
    return "stopped a process, killed it while stopped, saw both"


def _limits() -> str:
    with tempfile.TemporaryFile() as file, socket.socket() as listener:
        listener.close()
        ready, answer = os.pipe()
        go, start = os.pipe()
        pid = _forked()
        if pid == 0:
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            os.write(answer, b"r")
            os.read(go, 1)
            os.write(answer, bytes([os.write(file.fileno(), bytes(100))]))
            os._exit(0)
        os.read(ready, 1)
        hard = resource.prlimit(pid, resource.RLIMIT_FSIZE)[1]
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (40, hard))
        os.write(start, b"g")
        written = os.read(ready, 1)
    if written != bytes([40]):
        raise RefusedError("a limit on a running process had no effect")
    return "a running process wrote 40 of 100 bytes"


def _world() -> str:
    kind = "root's" if os.geteuid() == 0 else "an ordinary user's"
    _leave(CLONE_NEWNS | CLONE_NEWNET | CLONE_NEWPID)
    keep_mounts_private()
    told, tell = os.pipe()
    if _forked() == 0:
        mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC)
        seen = sum(name.isdigit() for name in os.listdir("/proc"))
        os.write(tell, b"%d %d" % (os.getpid(), seen))
        os._exit(0)
    os.close(tell)
    if os.read(told, 64) != b"1 1":
        raise RefusedError("/proc cannot be mounted in a process namespace of one's own")
    return f"namespaces of processes, mounts and networks, {kind}"


def _build(*, switched: bool = False) -> PrivateNetwork:
    """Build a network of two nodes in a network namespace of our own."""
    _leave(CLONE_NEWNS | CLONE_NEWNET)
    try:
        return PrivateNetwork(("n1", "n2"), switched=switched)
    except PermissionError as error:
        raise RefusedError(str(error), _NO_CAPABILITIES) from None


def _exchange(first: int, second: int, address: str, within_s: float = _ANSWER_S) -> bool:
    """Send one datagram between two network namespaces; whether it arrived."""
    with inside_network(second):
        receiver = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        receiver.bind((address, _PORT))
    with inside_network(first):
        sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        sender.connect((address, _PORT))
    with receiver, sender:
        sender.send(b"x")
        receiver.settimeout(within_s)
        try:
            return receiver.recv(8) == b"x"
        except TimeoutError:
            return False


def _network() -> str:
    network = _build()
    first, second = network.ends["n1"], network.ends["n2"]
    if not _exchange(first.namespace, second.namespace, second.address):
        raise RefusedError("a datagram did not cross the bridge")
    network.prove("n1", "n2")
    return "two namespaces, cables and a bridge; UDP and TCP crossed it"


def _filter() -> str:
    network = _build()
    first, second = network.ends["n1"], network.ends["n2"]
    filters = Filters()
    if not _exchange(first.namespace, second.namespace, second.address):
        raise RefusedError("a datagram did not cross the bridge")
    pair = (first.address, second.address)
    filters.change([pair], [], _CUT_S)
    if _exchange(first.namespace, second.namespace, second.address, _SILENCE_S):
        raise RefusedError("a filtered datagram crossed the bridge")
    dropped = filters.counts()[pair].packets
    filters.change([], [pair], _CUT_S)
    if not _exchange(first.namespace, second.namespace, second.address):
        raise RefusedError("a datagram did not cross the bridge after the filter was lifted")
    return f"cut one way, {dropped} dropped, and joined again"


def _switch() -> str:
    network = _build(switched=True)
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    plan = Plan(
        [Port(each.port, each.number) for each in network.ends.values()], list(DATA_NETWORK), 1
    )
    if _forked() == 0:
        ours.close()
        switch = Switch(plan)
        theirs.send(b"r")
        trio.run(switch.run, theirs)
        os._exit(0)
    theirs.close()
    if ours.recv(1) != b"r":
        raise RefusedError("the switch did not start")
    network.prove("n1", "n2")
    return "TCP crossed a switch of our own, frame by frame"


def _destroy() -> str:
    _leave(CLONE_NEWNET)
    interfaces = Interfaces()
    interfaces.bring_up("lo")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        caller = socket.create_connection(listener.getsockname())
        callee, _ = listener.accept()
    with caller, callee:
        caller.settimeout(_ANSWER_S)
        callee.settimeout(_ANSWER_S)
        connections = Connections()
        mine = [c for c in connections.established() if c.local == callee.getsockname()]
        if len(mine) != 1 or not connections.destroy(mine[0]):
            raise RefusedError("a connection could not be found and destroyed")
        for sock, error in ((callee, ConnectionAbortedError), (caller, ConnectionResetError)):
            try:
                sock.recv(1)
            except error:
                continue
            raise RefusedError("a destroyed connection lived on")
    return "destroyed a connection; both ends saw it"


def _time() -> str:
    import time

    before_s = time.clock_gettime(time.CLOCK_MONOTONIC)
    _leave(CLONE_NEWTIME)
    Path("/proc/self/timens_offsets").write_text(f"monotonic {_SHIFT_S} 0\n", encoding="ascii")
    told, tell = os.pipe()
    if _forked() == 0:
        os.write(tell, struct.pack("=d", time.clock_gettime(time.CLOCK_MONOTONIC)))
        os._exit(0)
    os.close(tell)
    answer = os.read(told, 8)
    if not answer or struct.unpack("=d", answer)[0] < before_s + _SHIFT_S:
        raise RefusedError("the shift had no effect")
    return f"a process lived {_SHIFT_S} s ahead"


PROBES: Final = (
    LevelProbe(
        PIDFD,
        _signals,
        "level 0: faults on processes",
        "no faults at all",
        "Linux 5.4 or later without a filter on pidfd_open is needed",
    ),
    LevelProbe(
        PRLIMIT,
        _limits,
        "level 0: limits of running processes",
        "no faults that lower limits",
        "a policy forbids prlimit; leave these faults out",
    ),
    LevelProbe(
        SECCOMP,
        stall_a_sync,
        "level 0: syncs held or failed from outside",
        "syncs fail through the node's own disk layer only",
        "Linux 5.5 or later on x86_64 or aarch64, not below another seccomp listener, is needed",
    ),
    LevelProbe(
        PRELOADED_CLOCK,
        try_a_shim,
        "level 0: the time of day of the supervisor and its workers moved",
        "no faults on the time of day but the nodes' own",
        REMEDY,
    ),
    LevelProbe(
        PRIVATE_WORLD,
        _world,
        "level 1: a world of its own, of which nothing is left",
        "level 0 only",
        _NO_USER_NAMESPACES,
    ),
    LevelProbe(
        NETWORK,
        _network,
        "level 1: a network for each node",
        "faults on links by proxies, at level 0",
        "load veth and bridge (modprobe veth bridge), or use --level 0",
    ),
    LevelProbe(
        FILTER,
        _filter,
        "level 1: partitions within a millisecond",
        "faults on links by proxies, at level 0",
        "load nf_tables and nft_meta_bridge (modprobe nf_tables), or use --level 0",
    ),
    LevelProbe(
        SWITCH,
        _switch,
        "level 1: packets delayed, lost, repeated, reordered and corrupted",
        "no faults on packets",
        "a kernel with CONFIG_PACKET and veth is needed, or leave these faults out",
    ),
    LevelProbe(
        RESETS,
        _destroy,
        "level 1: connections reset at both ends",
        "faults on links by proxies, at level 0",
        "a kernel with CONFIG_INET_DIAG_DESTROY is needed, or use --level 0",
    ),
    LevelProbe(
        TIME,
        _time,
        "level 1: monotonic clocks that differ",
        "no faults on monotonic clocks",
        "Linux 5.6 or later with CONFIG_TIME_NS is needed",
    ),
)
"""What needs no more than an ordinary user, on most machines."""
