"""The shim's file: written, preloaded, moved, put right."""

from __future__ import annotations

import mmap
import os
import struct
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from ...histories.ops import Json
from .amd64 import assemble
from .elf import CODE_AT, DATA_AT, FILE_BYTES, PAGE_BYTES, shared_library, slot_of

SONAME: Final = "libatleastonce-clock.so"
PRELOAD: Final = "LD_PRELOAD"
OFFSET_NS_MAX: Final = 2**62
_MARK: Final = b"atleastonce time"
"""Follows the offset; a file without it is none of ours, and is not written."""

_DATA: Final = struct.Struct(f"<q{len(_MARK)}s")
_SEPARATORS: Final = " :$"
"""What the dynamic linker takes for something else than a part of a path."""


class ShimError(Exception):
    """A file that is no shim, or a path that cannot be preloaded; the message is one line."""


def image() -> bytes:
    """Return the file of a shim, which is right until somebody moves it."""
    code = assemble(CODE_AT, DATA_AT, slot_of(0))
    return shared_library(SONAME, code, ("__errno_location",), _DATA.pack(0, _MARK))


def write_shim(path: Path) -> None:
    """Write a shim that its owner alone may read.

    Raises:
        ShimError: The dynamic linker could not take this path.
        OSError: The file is there, or cannot be written.
    """
    if found := sorted(set(_SEPARATORS).intersection(str(path))):
        raise ShimError(f"{str(path)!r} cannot be preloaded: it holds {found[0]!r}")
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(image())


def preloading(path: Path, environment: Mapping[str, str]) -> dict[str, str]:
    """Return what to add to an environment, so that programs started in it have this shim.

    What is preloaded already stays, behind it. The dynamic linker leaves a library out that it
    cannot load, with one line on standard error: see that it is there before you trust it.
    """
    before = environment.get(PRELOAD, "")
    return {PRELOAD: f"{path}:{before}" if before else str(path)}


class ShimClock:
    """Moves the time of day of all programs that have a shim loaded.

    Args:
        path: The shim's file.

    Raises:
        ShimError: It is no shim.
        OSError: It cannot be opened for writing.
    """

    def __init__(self, path: Path) -> None:
        with path.open("r+b") as file:
            if os.fstat(file.fileno()).st_size != FILE_BYTES:
                raise ShimError(f"{path} is no clock shim")
            self._page = mmap.mmap(file.fileno(), PAGE_BYTES, offset=DATA_AT)
        if _DATA.unpack_from(self._page)[1] != _MARK:
            self._page.close()
            raise ShimError(f"{path} is no clock shim")
        self._whole = memoryview(self._page)
        self._numbers = self._whole.cast("q")

    @property
    def offset_ns(self) -> int:
        """By how much the time of day is moved."""
        return self._numbers[0]

    def move(self, offset_ns: int) -> None:
        """Move it by so much from now on, with one store of eight bytes: none reads half of it.

        Raises:
            ValueError: That is too far.
        """
        if abs(offset_ns) > OFFSET_NS_MAX:
            raise ValueError(f"{offset_ns} ns is not allowed; at most {OFFSET_NS_MAX} either way")
        self._numbers[0] = offset_ns

    def close(self) -> None:
        """Let go of the file; the clocks stay as they are."""
        self._numbers.release()
        self._whole.release()
        self._page.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def is_loaded(pid: int, path: Path) -> bool:
    """Whether a process has the code of this very file mapped; False if it has ended.

    Where the file system forbids execution, the dynamic linker leaves the rest of it behind.

    Raises:
        OSError: Its maps may not be read.
    """
    try:
        maps = Path(f"/proc/{pid}/maps").read_text(encoding="utf-8", errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return False
    # address, rights, offset, device, inode, path; of a file that is gone the path says so.
    words = (line.split(maxsplit=5) for line in maps.splitlines())
    return ["r-xp", str(path.resolve())] in [[each[1], *each[5:]] for each in words]


def put_right(thing: dict[str, Json]) -> list[str]:
    """Put the clocks right that a dead run's shim moved; see `undo.UNDO`."""
    path = Path(str(thing["path"]))
    try:
        with ShimClock(path) as clock:
            moved_ns = clock.offset_ns
            if not moved_ns:
                return []
            clock.move(0)
    except (FileNotFoundError, ShimError):
        return []
    return [f"put right the time of day that {path} moved by {moved_ns / 1e9:g} s"]
