"""The files of a log: each appears under its name whole and durable, or not at all."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from . import format as layout
from .disk import Disk
from .manifest import NAME, Manifest

_TEMPORARY: Final = layout.TEMPORARY_SUFFIX


class SegmentFiles:
    """Makes, lists and deletes the files in a log's directory. All methods raise `OSError`.

    Args:
        disk: Where the directory is.
        directory: Below the disk's root.
    """

    def __init__(self, disk: Disk, directory: str) -> None:
        self._disk = disk
        self._directory = directory

    def path(self, name: str) -> str:
        """A file's path on the disk."""
        return f"{self._directory}/{name}"

    def make(self, name: str, content: Sequence[bytes]) -> None:
        """Make a file, or replace it, in one step."""
        disk, path = self._disk, self.path(name)
        disk.create(path + _TEMPORARY)
        disk.append(path + _TEMPORARY, content)
        disk.fsync(path + _TEMPORARY)
        disk.rename(path + _TEMPORARY, path)
        disk.fsync_dir(self._directory)

    def write_manifest(self, manifest: Manifest) -> None:
        """Replace the manifest."""
        self.make(NAME, [manifest.encode()])

    def delete(self, names: Iterable[str]) -> None:
        """Delete files, oldest first."""
        for name in names:
            self._disk.unlink(self.path(name))
        self._disk.fsync_dir(self._directory)
