"""This host's time of day, and how a test makes one node's wrong.

A clock that is stepped is a fault of the host, and no process may step the clocks of all others on
it. So a node reads its time of day through this, and a file may say by how much it is wrong.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Final

OFFSET_BYTES: Final = 20
"""Length of the file: a signed number of microseconds, padded."""


def wall_us() -> int:
    """This host's time of day, UTC."""
    return time.time_ns() // 1000


def write_offset(path: Path, offset_us: int) -> None:
    """Say by how much a node's time of day is wrong, from now on; the file is written in place.

    Raises:
        OSError: The file cannot be written.
    """
    text = f"{offset_us:+0{OFFSET_BYTES}d}".encode("ascii")
    with open(path, "r+b" if path.exists() else "wb") as file:
        file.write(text)


class WrongTimeOfDay:
    """A time of day that is wrong by what a file says at the moment of asking.

    Args:
        path: See `write_offset`.

    Raises:
        OSError: The file cannot be opened.
    """

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)

    def __call__(self) -> int:
        """The time of day, UTC microseconds. A few microseconds of time."""
        return wall_us() + int(os.pread(self._file, OFFSET_BYTES, 0) or b"0")
