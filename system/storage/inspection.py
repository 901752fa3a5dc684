"""Reading a node's log from outside, without changing a byte of it."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ..raft.messages import Entry, HardState
from . import format as layout
from .errors import DirectoryLockedError
from .manifest import NAME, Manifest
from .recovery import Recovered, Replay, read_manifest

KINDS = {
    layout.ENTRY: "entry",
    layout.HARD_STATE: "hard-state",
    layout.TRUNCATE: "truncate",
    layout.MARK: "mark",
    layout.BASE: "base",
}


class LogFolder:
    """A log's folder, opened for reading alone, and held against a node that would start.

    Raises:
        NotADirectoryError: There is no such folder.
        DirectoryLockedError: A running node has it.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(self._descriptor)
            raise DirectoryLockedError(str(folder)) from None

    @property
    def folder(self) -> Path:
        """Where it is."""
        return self._folder

    def close(self) -> None:
        """Let go."""
        os.close(self._descriptor)

    @property
    def is_empty(self) -> bool:
        """Whether no log was ever begun there."""
        return not any(n == NAME or n.endswith(layout.SUFFIX) for n in os.listdir(self._folder))

    def segments(self) -> list[str]:
        """Names of its segments, in order; without those that a purge had begun to delete.

        Raises:
            DamagedLogError: The manifest is missing or cannot be read.
        """
        names = sorted(name for name in os.listdir(self._folder) if name.endswith(layout.SUFFIX))
        manifest = self._manifest(names)
        return [name for name in names if manifest is None or name >= manifest.first.name]

    def _manifest(self, names: list[str]) -> Manifest | None:
        return read_manifest(self, "log", names)

    def read(self, path: str) -> bytes:
        """One file, named as in a log, with the folder in front."""
        return (self._folder / Path(path).name).read_bytes()

    def where(self, path: str) -> str:
        """The path as an operator knows it."""
        return str(self._folder / Path(path).name)

    def replay(self) -> Recovered:
        """What a node would find there.

        Raises:
            DamagedLogError: The log holds what no crash can explain.
        """
        names = self.segments()
        return Replay(self, "log").run(names, self._manifest(names))[0]

    def records(self) -> Iterator[SeenRecord]:
        """All records in order, up to the first that is not intact."""
        names = self.segments()
        for name in names:
            try:
                data = self.read(name)
                header = layout.decode_segment_header(data)
            except (FileNotFoundError, ValueError):
                return
            seq, chain, offset = header.first_seq, header.seed, layout.HEADER.size
            while offset < len(data):
                record = layout.decode_record(data, offset, seq, chain)
                if isinstance(record, str):
                    return
                yield SeenRecord(name, offset, seq, record)
                seq, chain, offset = seq + 1, record.crc, record.end


@dataclass(frozen=True, slots=True)
class SeenRecord:
    """One intact record and where it stands."""

    file: str
    offset: int
    seq: int
    record: layout.Record

    @property
    def kind(self) -> str:
        """Its type in words."""
        return KINDS.get(self.record.kind, f"unknown {self.record.kind}")

    def content(self) -> Entry | HardState | layout.Base | int | None:
        """The entry, the term and vote, what came before, the first index cut, or nothing.

        Raises:
            ValueError: The payload is not what its type says.
        """
        payload = self.record.payload
        if self.record.kind == layout.ENTRY:
            return layout.decode_entry(payload)
        if self.record.kind == layout.HARD_STATE:
            return layout.decode_hard_state(payload)
        if self.record.kind == layout.TRUNCATE:
            return layout.decode_truncate(payload)
        if self.record.kind == layout.BASE:
            return layout.decode_base(payload)
        return None
