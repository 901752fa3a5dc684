"""A real disk that refuses from its Nth act on, as a full or a dying one does."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from atleastonce.system.storage.disk import RealDisk


class FailingDisk(RealDisk):
    """Fails every act that changes something, from the one numbered `fails_at` on.

    A refused write leaves the first half of its bytes behind, as a short write does.
    """

    def __init__(self, root: Path, fails_at: int, error: int) -> None:
        self._acts = 0
        self._fails_at = fails_at
        self._error = error
        super().__init__(root)

    def _act(self) -> None:
        self._acts += 1
        if self._acts >= self._fails_at:
            raise OSError(self._error, os.strerror(self._error))

    @property
    def has_failed(self) -> bool:
        return self._acts >= self._fails_at

    def create(self, path: str) -> None:
        self._act()
        super().create(path)

    def append(self, path: str, buffers: Sequence[bytes]) -> None:
        try:
            self._act()
        except OSError:
            data = b"".join(buffers)
            super().append(path, [data[: len(data) // 2]])
            raise
        super().append(path, buffers)

    def pwrite(self, path: str, offset: int, data: bytes) -> None:
        self._act()
        super().pwrite(path, offset, data)

    def truncate(self, path: str, size: int) -> None:
        self._act()
        super().truncate(path, size)

    def fsync(self, path: str) -> None:
        self._act()
        super().fsync(path)

    def fsync_dir(self, directory: str) -> None:
        self._act()
        super().fsync_dir(directory)

    def rename(self, old: str, new: str) -> None:
        self._act()
        super().rename(old, new)
