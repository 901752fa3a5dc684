"""What level 2 rests on, and what this machine has beside, tried out."""

from __future__ import annotations

import fcntl
import os
import signal
import struct
import tempfile
from pathlib import Path
from typing import Final

from ..nemesis.cgroups import CONTROLLERS, ControlGroup, NoControllerError
from ..nemesis.ext4 import Ext4Error, Ext4Image
from ..nemesis.levels import CONTROL_GROUPS, LOOP_EXT4
from ..nemesis.namespaces import (
    CLONE_NEWNET,
    CLONE_NEWNS,
    die_with_parent,
    keep_mounts_private,
    leave,
    mount,
    unmount,
    unshare,
)
from .probing import LevelProbe, RefusedError

TAP: Final = "tap device"
FUSE: Final = "fuse"

_IMAGE_BYTES: Final = 8 << 20
_MEMORY_BYTES: Final = 64 << 20
_TUNSETIFF: Final = 0x400454CA
_IFF_TAP_NO_PI: Final = 0x1002


def _ext4() -> str:
    if os.geteuid() != 0:
        raise RefusedError("not root")
    unshare(CLONE_NEWNS)
    keep_mounts_private()
    with tempfile.TemporaryDirectory() as folder:
        image = Ext4Image(Path(folder, "image"), Path(folder, "mounted"))
        try:
            image.make(_IMAGE_BYTES)
        except Ext4Error as error:
            raise RefusedError(str(error), "install e2fsprogs") from None
        image.mount()
        try:
            with (image.point / "kept").open("wb") as file:
                file.write(b"synced")
                file.flush()
                os.fsync(file.fileno())
            (image.point / "lost").write_bytes(b"not synced")
            image.cut_power()
            image.unmount()
            image.mount()
            left = sorted(os.listdir(image.point))
        finally:
            if image.is_mounted():
                image.unmount()
    if "kept" not in left or "lost" in left:
        raise RefusedError(f"after a power cut there was {left}")
    return "a synced file outlived a power cut, another one did not"


def _groups() -> str:
    if os.geteuid() != 0:
        raise RefusedError("not root")
    try:
        group = ControlGroup(f"atleastonce-probe-{os.getpid()}", CONTROLLERS)
    except NoControllerError as error:
        raise RefusedError(str(error)) from None
    pid = os.fork()
    if pid == 0:
        die_with_parent()
        while True:
            signal.pause()
    group.make()
    try:
        group.bound_memory(_MEMORY_BYTES)
        group.bound_cpu(0.5)
        group.admit(pid)
        members = [(folder / "cgroup.procs").read_text().split() for folder in group.folders()]
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        group.release()
    if not all(str(pid) in listed for listed in members):
        raise RefusedError("a process did not move into its group")
    return "bounded the memory and CPU time of a process"


def _tap() -> str:
    leave(CLONE_NEWNET)
    device = os.open("/dev/net/tun", os.O_RDWR | os.O_CLOEXEC)
    fcntl.ioctl(device, _TUNSETIFF, struct.pack("=16sH22x", b"probe", _IFF_TAP_NO_PI))
    return "made a TAP device"


def _fuse() -> str:
    device = os.open("/dev/fuse", os.O_RDWR | os.O_CLOEXEC)
    leave(CLONE_NEWNS)
    keep_mounts_private()
    with tempfile.TemporaryDirectory() as folder:
        mount("probe", folder, "fuse", 0, f"fd={device},rootmode=40000,user_id=0,group_id=0")
        # Nobody answers it: a look at what is mounted would hang for ever.
        unmount(folder, detach=True)
        os.close(device)
    return "mounted a FUSE file system"


PROBES: Final = (
    LevelProbe(
        LOOP_EXT4,
        _ext4,
        "level 2: power cuts of a real file system",
        "power cuts are modelled: written files are cut back to what was synced",
        "run as root on a machine with loop devices",
    ),
    LevelProbe(
        CONTROL_GROUPS,
        _groups,
        "level 2: bounded memory and CPU time of groups",
        "limits by prlimit only",
        "run as root with the memory and cpu controllers of control groups",
    ),
)
"""What needs root."""
EXTRA: Final = (
    LevelProbe(
        TAP,
        _tap,
        "the packet switch could use TAP; it uses AF_PACKET all the same",
        "the packet switch uses AF_PACKET",
        "nothing needs to be done",
    ),
    LevelProbe(
        FUSE,
        _fuse,
        "FUSE could be used; disk faults do without it",
        "disk faults do without FUSE",
        "nothing needs to be done",
    ),
)
"""What no fault needs: worth knowing only."""
