"""Watches a lane's attempt logs for the moment at which its fault is to begin."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from ..histories.attempts import RECORD_BYTES
from ..workloads.lanes.lane import Trigger
from .progress import new_records


class _Event(msgspec.Struct):
    """The fields of an attempt record that a trigger looks at."""

    e: str
    job: str
    pid: int
    t_ns: int


@dataclass(slots=True)
class LaneEvents:
    """What was recorded so far.

    Attributes:
        starts: Runs that started.
        started: Process of the first run of each job that started.
        ended: Jobs one of whose runs ended.
        first_pid: Process of the first run of all, by the time in its record.
    """

    starts: int = 0
    started: dict[str, int] = field(default_factory=dict)
    ended: set[str] = field(default_factory=set)
    first_pid: int | None = None
    _first_ns: int = 0

    def note(self, e: str, job: str, pid: int, t_ns: int) -> None:
        """Take one record."""
        if e == "started":
            self.starts += 1
            self.started.setdefault(job, pid)
            if self.first_pid is None or t_ns < self._first_ns:
                self.first_pid, self._first_ns = pid, t_ns
        elif e == "ended":
            self.ended.add(job)

    def holds(self, trigger: Trigger) -> bool:
        """Whether all that a trigger waits for was recorded; its pause is not looked at."""
        return (
            self.starts >= trigger.starts
            and set(trigger.started) <= self.started.keys()
            and set(trigger.ended) <= self.ended
        )


class LaneWatch:
    """Reads what the attempt logs of a folder have gained."""

    def __init__(self, folder: Path) -> None:
        self.events = LaneEvents()
        self._folder = folder
        self._read: dict[str, int] = {}
        self._decoder = msgspec.json.Decoder(_Event)

    def poll(self) -> LaneEvents:
        """Read what is new; what does not decode is left to the checkers."""
        for data in new_records(self._folder, self._read):
            for start in range(0, len(data), RECORD_BYTES):
                try:
                    event = self._decoder.decode(data[start : start + RECORD_BYTES])
                except msgspec.MsgspecError:
                    continue
                self.events.note(event.e, event.job, event.pid, event.t_ns)
        return self.events
