"""How long a worker's jobs took, in a small file of its own that others read."""

from __future__ import annotations

import os
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Final

SUFFIX: Final = ".runtimes"
_FORMAT: Final = struct.Struct("<QQ")


@dataclass(frozen=True, slots=True)
class Runtimes:
    """What a worker has done since its start.

    Attributes:
        jobs: How many jobs it ran.
        total_us: How long they took together.
    """

    jobs: int = 0
    total_us: int = 0


class RuntimeWriter:
    """Writes one worker's file, 16 bytes that are overwritten after every job.

    Args:
        directory: The workers' directory.
        pid: The worker.

    Raises:
        OSError: The file cannot be made.
    """

    def __init__(self, directory: str, pid: int) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW
        self._fd = os.open(Path(directory) / f"{pid}{SUFFIX}", flags, 0o600)
        self._jobs = 0
        self._total_us = 0

    def note(self, seconds: float) -> None:
        """Count a job that took so long."""
        self._jobs += 1
        self._total_us += round(seconds * 1e6)
        os.pwrite(self._fd, _FORMAT.pack(self._jobs, self._total_us), 0)

    def close(self) -> None:
        """Close the file; it stays for whoever reads it."""
        os.close(self._fd)


def read_runtimes(directory: Path, pid: int) -> Runtimes:
    """Return what a worker has written; nothing when there is no such file, or no whole one."""
    try:
        data = (directory / f"{pid}{SUFFIX}").read_bytes()
    except FileNotFoundError:
        return Runtimes()
    return Runtimes(*_FORMAT.unpack(data)) if len(data) == _FORMAT.size else Runtimes()
