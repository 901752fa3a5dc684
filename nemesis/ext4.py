"""A real ext4 file system on a file, whose power can be cut (root only).

Cutting the power is the kernel's own forced shutdown: whatever was not synced is gone, data and
directory entries alike, as the next mount's replay of the journal shows. The loop device is taken
back by the kernel with the last unmount, and in a private world the mount goes with that world.
"""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import stat
import struct
import subprocess
import time
from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec

from ..histories.ops import Json
from .namespaces import mount, unmount

MAKE_TOOL: Final = "mkfs.ext4"
SIZE_BYTES: Final = 64 << 20
_CONTROL: Final = "/dev/loop-control"
_GET_FREE: Final = 0x4C82
_CONFIGURE: Final = 0x4C0A
_AUTOCLEAR: Final = 4
_LOOP_MAJOR: Final = 7
_INFO_BYTES: Final = 232
_INFO_FLAGS_AT: Final = 52
_CONFIG: Final = struct.Struct(f"=II{_INFO_BYTES}s64x")
_SHUTDOWN: Final = 0x8004587D
_WITHOUT_FLUSH: Final = 2
_LOST_AND_FOUND: Final = "lost+found"
_TRIES: Final = 16
_BUSY_S: Final = 5.0
_BUSY_PAUSE_S: Final = 0.01


class Mounted(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A file system as the ledger holds it.

    Attributes:
        image: The file that it lies in.
        point: Where it is mounted.
        mounts: Inode of the mount namespace; in another one it cannot be seen.
    """

    image: str
    point: str
    mounts: int


class Ext4Error(Exception):
    """The file system cannot be made; the message is one line."""


class Ext4Image:
    """One file system on one image file.

    Args:
        image: Where the file is, or will be.
        point: A folder to mount it on.
    """

    def __init__(self, image: Path, point: Path) -> None:
        self.image = image
        self.point = point

    def thing(self) -> dict[str, Json]:
        """What the ledger holds, so that `undo` finds it."""
        told = Mounted(image=str(self.image), point=str(self.point), mounts=_mount_namespace())
        plain: dict[str, Json] = msgspec.to_builtins(told)
        return plain

    def make(self, size_bytes: int = SIZE_BYTES) -> None:
        """Make an empty file system; about 25 ms.

        Raises:
            Ext4Error: The tool is missing or refuses.
        """
        tool = shutil.which(MAKE_TOOL, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")
        if tool is None:
            raise Ext4Error(f"{MAKE_TOOL} is not installed; install e2fsprogs")
        with self.image.open("wb") as file:
            file.truncate(size_bytes)
        made = subprocess.run(
            (tool, "-q", "-F", str(self.image)), capture_output=True, text=True, check=False
        )
        if made.returncode != 0:
            raise Ext4Error(f"{MAKE_TOOL}: {made.stderr.strip() or made.returncode}")

    def mount(self) -> None:
        """Mount it, replaying its journal if its power was cut; about 30 ms.

        Raises:
            OSError: There is no loop device, or the file system is not whole.
        """
        self.point.mkdir(parents=True, exist_ok=True)
        device, descriptor = _attach(self.image)
        try:
            mount(device, str(self.point), "ext4")
        finally:
            os.close(descriptor)
        # No node expects a folder that is not its own in its data.
        with suppress(FileNotFoundError):
            (self.point / _LOST_AND_FOUND).rmdir()

    def cut_power(self) -> None:
        """Lose all that is not synced; every call fails with EIO from now on. About 2 ms.

        Raises:
            OSError: The kernel refuses.
        """
        descriptor = os.open(self.point, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            fcntl.ioctl(descriptor, _SHUTDOWN, struct.pack("=I", _WITHOUT_FLUSH))
        finally:
            os.close(descriptor)

    def unmount(self, within_s: float = _BUSY_S) -> None:
        """Unmount it, which gives the loop device back; blocks while a dying process holds it.

        Raises:
            OSError: A file on it is still open after so long.
        """
        deadline_s = time.monotonic() + within_s
        while True:
            try:
                unmount(str(self.point))
            except OSError as error:
                if error.errno != errno.EBUSY or time.monotonic() > deadline_s:
                    raise
                time.sleep(_BUSY_PAUSE_S)
            else:
                return

    def is_mounted(self) -> bool:
        """Whether it is mounted in this mount namespace."""
        return os.path.ismount(self.point)


def undo(thing: dict[str, Json]) -> list[str]:
    """Unmount what a dead run left mounted; what was in another mount namespace is gone with it."""
    told = msgspec.convert(thing, Mounted)
    left = Ext4Image(Path(told.image), Path(told.point))
    if told.mounts != _mount_namespace() or not left.is_mounted():
        return []
    left.unmount()
    return [f"unmounted {told.point}"]


def _mount_namespace() -> int:
    return os.stat("/proc/self/ns/mnt").st_ino


def _attach(image: Path) -> tuple[str, int]:
    """Put a file behind a free loop device; the device frees itself when nothing has it open."""
    backing = os.open(image, os.O_RDWR | os.O_CLOEXEC)
    control = os.open(_CONTROL, os.O_RDWR | os.O_CLOEXEC)
    try:
        info = bytearray(_INFO_BYTES)
        struct.pack_into("=I", info, _INFO_FLAGS_AT, _AUTOCLEAR)
        for _ in range(_TRIES):
            number = fcntl.ioctl(control, _GET_FREE)
            device = f"/dev/loop{number}"
            if not os.path.exists(device):
                os.mknod(device, stat.S_IFBLK | 0o600, os.makedev(_LOOP_MAJOR, number))
            descriptor = os.open(device, os.O_RDWR | os.O_CLOEXEC)
            try:
                fcntl.ioctl(descriptor, _CONFIGURE, _CONFIG.pack(backing, 0, bytes(info)))
            except OSError as error:
                os.close(descriptor)
                if error.errno != errno.EBUSY:
                    raise
                continue  # Somebody else took it between the two calls.
            return device, descriptor
        raise OSError(errno.EBUSY, "no free loop device")
    finally:
        os.close(control)
        os.close(backing)
