"""Starting processes of the system, and the loopback ports that they listen on."""

from __future__ import annotations

import os
import random
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from .errors import UsageError

LOOPBACK: Final = "127.0.0.1"
_TAIL_BYTES: Final = 65_536
_PORT_MIN: Final = 10_240
_TRIES: Final = 100


def spawn(
    module: str,
    config: Path,
    log: Path,
    variables: Mapping[str, str],
    wrap: Callable[[Sequence[str]], list[str]] = list,
    keep: Sequence[int] = (),
) -> subprocess.Popen[bytes]:
    """Start `python -m MODULE CONFIG`, in a session of its own, its output appended to `log`.

    A session of its own keeps the terminal's Ctrl-C from reaching the child; the verifier stops
    it. The child asks to be killed when its parent *thread* dies, so only the main thread spawns.

    Args:
        module: What to run.
        config: Its only argument.
        log: Gets its output.
        variables: Added to its environment.
        wrap: Makes of its command the one that is started, which becomes it.
        keep: Descriptors that the child inherits.

    Raises:
        OSError: The process cannot be started.
    """
    assert threading.current_thread() is threading.main_thread(), "spawned off the main thread"
    with log.open("ab") as output:
        return subprocess.Popen(
            # -P: a file in the caller's folder must not stand in for a library.
            wrap((sys.executable, "-P", "-m", module, str(config))),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env={**os.environ, "PYTHONUNBUFFERED": "1", **variables},
            start_new_session=True,
            pass_fds=keep,
        )


def read_tail(log: Path) -> str:
    """Return the end of a log, at most 64 KiB of it; empty if there is no log.

    Raises:
        OSError: The log is there and cannot be read.
    """
    try:
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - _TAIL_BYTES))
            return file.read().decode("utf-8", "replace")
    except FileNotFoundError:
        return ""


def log_tail(log: Path, lines: int = 12) -> str:
    """Return the last lines of a log, indented; says so if there are none."""
    last = read_tail(log).splitlines()[-lines:]
    return "\n".join(f"  {line}" for line in last) if last else f"  ({log} is empty or missing)"


@dataclass(frozen=True, slots=True)
class NodePorts:
    """Where a node listens."""

    client: int
    peer: int


class PortHold:
    """Ports that stay ours from their choice to the end of the run.

    Each is bound here and never listened on, with SO_REUSEADDR set after the bind: Linux then lets
    a node bind and listen on it, also after a restart, while nobody else can take it meanwhile,
    and no outgoing connection gets it as its own port. Free ports are taken from below those that
    the system hands out: a stranger who asks for any port, with SO_REUSEADDR set before, may get
    one that is merely held.
    """

    def __init__(self) -> None:
        self._held: list[socket.socket] = []

    def take(self, nodes: Sequence[str], base_port: int) -> dict[str, NodePorts]:
        """Choose two ports a node: free ones, or from `base_port` on if that is not 0.

        Raises:
            UsageError: A port that was asked for is in use.
        """
        ports: dict[str, NodePorts] = {}
        for place, node in enumerate(nodes):
            wanted = base_port + 2 * place if base_port else 0
            client = self._take_one(wanted)
            peer = self._take_one(wanted + 1 if wanted else 0)
            ports[node] = NodePorts(client, peer)
        return ports

    def _take_one(self, port: int) -> int:
        if not port:
            port = _free_port()
        sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
        if port:
            # An earlier run's closed connections may linger on it; a listener still refuses us.
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            sock.bind((LOOPBACK, port))
        except OSError as error:
            sock.close()
            self.close()
            raise UsageError(
                f"port {port} cannot be used ({error.strerror}); choose another "
                "--set base_port=N, or leave it out to take free ports"
            ) from None
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._held.append(sock)
        return int(sock.getsockname()[1])

    def close(self) -> None:
        """Let go of all ports."""
        while self._held:
            self._held.pop().close()


def _free_port() -> int:
    """A port that nobody uses and that the system gives to nobody; 0 if there seems to be none."""
    with open("/proc/sys/net/ipv4/ip_local_port_range", encoding="ascii") as file:
        first_handed_out = int(file.read().split()[0])
    draw = random.SystemRandom()
    for _ in range(_TRIES if first_handed_out > _PORT_MIN else 0):
        port = draw.randrange(_PORT_MIN, first_handed_out)
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM | socket.SOCK_CLOEXEC) as probe:
            try:
                probe.bind((LOOPBACK, port))
            except OSError:
                continue
        return port
    return 0
