"""What workers' own records say of their time of day: each has the monotonic clock beside it."""

from __future__ import annotations

import time
from collections.abc import Collection
from pathlib import Path

import msgspec

from ..histories.attempts import RECORD_BYTES


class _Stamps(msgspec.Struct):
    t_ns: int
    wall_ns: int
    pid: int


_DECODER = msgspec.json.Decoder(_Stamps)


def ahead_ns() -> int:
    """By how much this process's time of day is ahead of its monotonic clock.

    The least of some tries, as a process may be put aside between its two looks.
    """
    return min(time.time_ns() - time.monotonic_ns() for _ in range(5))


class ClockRecords:
    """Reads what is added to the attempt logs of a folder.

    Args:
        folder: Where the logs are; what they hold already is not read.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._read: dict[Path, int] = {}
        for path in folder.glob("*.jsonl"):
            self._read[path] = path.stat().st_size // RECORD_BYTES * RECORD_BYTES

    def errors_us(self, pids: Collection[int], from_ns: int) -> list[int]:
        """By how much the time of day was wrong in each record that came since the last call.

        Args:
            pids: Only those of these processes.
            from_ns: Only those that were made since, by CLOCK_MONOTONIC.
        """
        right_ns = ahead_ns()
        return [
            (stamps.wall_ns - stamps.t_ns - right_ns) // 1000
            for stamps in self._stamps()
            if stamps.pid in pids and stamps.t_ns >= from_ns
        ]

    def _stamps(self) -> list[_Stamps]:
        found = []
        for path in self._folder.glob("*.jsonl"):
            begin = self._read.get(path, 0)
            with path.open("rb") as file:
                file.seek(begin)
                data = file.read()
            # A killed writer may have torn its last line.
            whole = len(data) // RECORD_BYTES * RECORD_BYTES
            self._read[path] = begin + whole
            for at in range(0, whole, RECORD_BYTES):
                try:
                    found.append(_DECODER.decode(data[at : at + RECORD_BYTES]))
                except msgspec.MsgspecError:
                    continue  # Judging damage is the checker's part.
        return found
