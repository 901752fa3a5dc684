"""The one job body that every system under comparison runs.

Imports nothing but the standard library: RQ's, Celery's and our own workers all load it.
"""

from __future__ import annotations

import os
import struct
import time

_files: dict[int, int] = {}


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
