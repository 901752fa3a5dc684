"""The supervisor's log: one JSON object a line on standard error, written at once."""

from __future__ import annotations

import os
import time
from typing import Literal

import msgspec

Level = Literal["info", "warning", "error"]
Field = str | int | float | bool | None | list[str]

STANDARD_ERROR = 2


class Logbook:
    """Writes lines for one role; `pid` and `role` are in each of them.

    Args:
        role: `master`, `fork-server` or `worker`.
        fd: Where to write.
    """

    def __init__(self, role: str, fd: int = STANDARD_ERROR) -> None:
        self._role = role
        self._fd = fd

    def record(self, level: Level, event: str, **fields: Field) -> None:
        """Write one line; `t_ns` is CLOCK_MONOTONIC, `wall_ns` the time of day.

        A log that cannot be written (a full disk, a closed pipe) stops nobody's work.
        """
        line: dict[str, Field] = {
            "t_ns": time.monotonic_ns(),
            "wall_ns": time.time_ns(),
            "level": level,
            "role": self._role,
            "pid": os.getpid(),
            "event": event,
        }
        line.update(fields)
        try:
            os.write(self._fd, msgspec.json.encode(line) + b"\n")
        except OSError:
            return

    def info(self, event: str, **fields: Field) -> None:
        """Something expected."""
        self.record("info", event, **fields)

    def warning(self, event: str, **fields: Field) -> None:
        """Something that someone may want to look at."""
        self.record("warning", event, **fields)

    def error(self, event: str, **fields: Field) -> None:
        """Something that ends a process."""
        self.record("error", event, **fields)
