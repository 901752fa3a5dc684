"""Turning what the operating system refuses into the failure that a log keeps for ever."""

from __future__ import annotations

from collections.abc import Callable

from .disk import Disk
from .errors import DiskFailedError


class DiskErrors:
    """A `with` block in which an `OSError` becomes a `DiskFailedError`.

    Args:
        disk: Names the path for people.
        keep: Hears of the failure before it is raised.
        operation: What is tried.
        path: On what.
    """

    __slots__ = ("_disk", "_keep", "_operation", "_path")

    def __init__(
        self, disk: Disk, keep: Callable[[DiskFailedError], None], operation: str, path: str
    ) -> None:
        self._disk = disk
        self._keep = keep
        self._operation = operation
        self._path = path

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, OSError):
            where = self._disk.where(self._path)
            failure = DiskFailedError(self._operation, where, error.strerror or str(error))
            self._keep(failure)
            raise failure from error
