"""Programs that are started with a shim, and say what time it is for them when asked."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from atleastonce.nemesis.clockshim.shim import preloading

_SERVER = """
import sys
from time import *
import ctypes, datetime, threading
for line in sys.stdin:
    print(eval(line), flush=True)
"""


class Program:
    """A Python that evaluates one line after another."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self.pid = process.pid

    def ask(self, expression: str) -> str:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(expression + "\n")
        self._process.stdin.flush()
        return self._process.stdout.readline().strip()

    def error_s(self, expression: str = "time()") -> float:
        """By how much a time of day of that program is wrong."""
        return float(self.ask(expression)) - time.time()


@contextmanager
def program(shim: Path) -> Iterator[Program]:
    """A program with a shim."""
    process = subprocess.Popen(
        [sys.executable, "-I", "-c", _SERVER],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, **preloading(shim, os.environ)},
    )
    try:
        yield Program(process)
    finally:
        process.communicate()
