"""A simulated disk that loses its power at a planned operation."""

from __future__ import annotations

from atleastonce.system.storage.simdisk import SimDisk


class PowerLostError(Exception):
    """The planned operation was reached."""


class FragileDisk(SimDisk):
    """Loses power before the operation after `operations_left` more."""

    operations_left = 1 << 30

    def _count(self) -> None:
        self.operations_left -= 1
        if self.operations_left < 0:
            raise PowerLostError

    def create(self, path: str) -> None:
        self._count()
        super().create(path)

    def pwrite(self, path: str, offset: int, data: bytes) -> None:
        self._count()
        super().pwrite(path, offset, data)

    def truncate(self, path: str, size: int) -> None:
        self._count()
        super().truncate(path, size)

    def fsync(self, path: str) -> None:
        self._count()
        super().fsync(path)

    def fsync_dir(self, directory: str) -> None:
        self._count()
        super().fsync_dir(directory)

    def rename(self, old: str, new: str) -> None:
        self._count()
        super().rename(old, new)

    def unlink(self, path: str) -> None:
        self._count()
        super().unlink(path)
