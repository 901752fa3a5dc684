"""A worker's log: JSON lines on standard error."""

from __future__ import annotations

import os
import time

import msgspec


def log_event(event: str, *, level: str = "warning", **fields: object) -> None:
    """Write one line."""
    line = {
        "t_ns": time.monotonic_ns(),
        "wall_ns": time.time_ns(),
        "level": level,
        "event": event,
        "pid": os.getpid(),
        **fields,
    }
    # Not through sys.stderr: an alarm may come in the middle of a write to it.
    os.write(2, msgspec.json.encode(line) + b"\n")
