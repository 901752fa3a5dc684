"""Counts what the workers did, while they do it, by reading only what their logs have gained."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from ..histories.attempts import RECORD_BYTES


def new_records(folder: Path, read: dict[str, int]) -> Iterator[bytes]:
    """Yield what the attempt logs of a folder have gained, whole records, file by file.

    Args:
        folder: The folder.
        read: Bytes read of each file, by name; brought up to date.
    """
    for entry in os.scandir(folder):
        size, seen = entry.stat().st_size, read.get(entry.name, 0)
        whole = (size - seen) // RECORD_BYTES * RECORD_BYTES
        if whole > 0:
            with open(entry.path, "rb") as file:
                file.seek(seen)
                yield file.read(whole)
            read[entry.name] = seen + whole


class _Seen(msgspec.Struct):
    """The few fields of an attempt record that are counted."""

    e: str
    t_ns: int
    attempt: int
    outcome: str | None = None


@dataclass(slots=True)
class Progress:
    """Counts over all attempt logs; `last_ns` is the latest record's CLOCK_MONOTONIC time."""

    started: int = 0
    completed: int = 0
    failed: int = 0
    retried: int = 0
    given_up: int = 0
    last_ns: int = 0


@dataclass(slots=True)
class AttemptTail:
    """Follows every attempt log of a folder.

    A poll costs one directory listing, and about a microsecond for each record that is new. What
    does not decode is left to the checkers: here it is only not counted.
    """

    folder: Path
    progress: Progress = field(default_factory=Progress)
    _read: dict[str, int] = field(default_factory=dict)
    _decoder: msgspec.json.Decoder[_Seen] = field(
        default_factory=lambda: msgspec.json.Decoder(_Seen)
    )

    def poll(self) -> Progress:
        """Read what is new and return the totals."""
        for data in new_records(self.folder, self._read):
            self._count(data)
        return self.progress

    def _count(self, data: bytes) -> None:
        progress = self.progress
        for start in range(0, len(data), RECORD_BYTES):
            try:
                record = self._decoder.decode(data[start : start + RECORD_BYTES])
            except msgspec.MsgspecError:
                continue
            progress.last_ns = max(progress.last_ns, record.t_ns)
            if record.e == "started":
                progress.started += 1
                progress.retried += record.attempt > 1
            elif record.e == "ended":
                done = record.outcome == "completed"
                progress.completed += done
                progress.failed += not done
            elif record.e == "gave_up":
                progress.given_up += 1
