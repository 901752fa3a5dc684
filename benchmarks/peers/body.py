"""The job bodies that every system under comparison runs.

Imports nothing but the standard library: the peers' and our own workers all load it.
"""

from __future__ import annotations

import os
import struct
import time

RECORD = struct.Struct("<4q")
"""Number of the job, 0 for a start or 1 for an end, when it was sent, now; times in ns."""

_files: dict[int, int] = {}
_logs: dict[tuple[int, str], int] = {}


def work(directory: str, sleep_ms: float) -> None:
    """Sleep, then append the end's CLOCK_MONOTONIC (8 bytes, ns) to this process's own file."""
    if sleep_ms:
        time.sleep(sleep_ms / 1000)
    pid = os.getpid()
    file = _files.get(pid)
    if file is None:
        path = os.path.join(directory, f"{pid}.ends")
        file = _files[pid] = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    os.write(file, struct.pack("<q", time.monotonic_ns()))


def run(directory: str, number: int, sent_ns: int, sleep_ms: float) -> None:
    """Append a start to this process's own log, sleep, append an end: one write each.

    Args:
        directory: Where the logs of this phase lie.
        number: The job's, unique in the phase.
        sent_ns: CLOCK_MONOTONIC when its producer sent it.
        sleep_ms: How long it takes; an empty job does not even call sleep.
    """
    key = os.getpid(), directory
    log = _logs.get(key)
    if log is None:
        path = os.path.join(directory, f"{key[0]}.log")
        log = _logs[key] = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    os.write(log, RECORD.pack(number, 0, sent_ns, time.monotonic_ns()))
    if sleep_ms:
        time.sleep(sleep_ms / 1000)
    os.write(log, RECORD.pack(number, 1, sent_ns, time.monotonic_ns()))
