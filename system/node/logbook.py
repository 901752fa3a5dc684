"""Structured log lines: one JSON object a line, written at once."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Literal

import msgspec

Level = Literal["info", "warning", "error"]
Field = str | int | float | bool | None | list[str]


class Logbook:
    """Writes what a node did and saw.

    Args:
        write: Takes one whole line of bytes; must not raise.
        node: Named in every line.
    """

    def __init__(self, write: Callable[[bytes], object], node: str) -> None:
        self._write = write
        self._node = node

    def record(self, level: Level, event: str, **fields: Field) -> None:
        """Write one line; `t_ns` is CLOCK_MONOTONIC, `wall_ns` the time of day.

        May be called from any thread.
        """
        line: dict[str, Field] = {
            "t_ns": time.monotonic_ns(),
            "wall_ns": time.time_ns(),
            "level": level,
            "node": self._node,
            "event": event,
        }
        line.update(fields)
        self._write(msgspec.json.encode(line) + b"\n")

    def info(self, event: str, **fields: Field) -> None:
        """Something expected."""
        self.record("info", event, **fields)

    def warning(self, event: str, **fields: Field) -> None:
        """Something that someone may want to look at."""
        self.record("warning", event, **fields)

    def error(self, event: str, **fields: Field) -> None:
        """Something that ends the node or a request."""
        self.record("error", event, **fields)
