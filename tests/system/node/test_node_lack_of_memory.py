"""A node without memory says so by its exit status, in whatever form the lack appears."""

from __future__ import annotations

import errno
import subprocess
import sys

import pytest
import trio

from atleastonce.system.node.ending import EXIT_BROKEN, EXIT_OUT_OF_MEMORY
from atleastonce.system.node.lack import is_lack_of_memory
from atleastonce.system.node.saying import NO_MEMORY

# One task waits for a thread that never answers, as one that died without a word; another fails.
HUNG = """
import signal, threading, sys, trio
from atleastonce.system.node.end_in_time import end_in_time, ended_in_time

async def fail():
    await trio.sleep(0.05)
    raise {error}

async def main():
    async with trio.open_nursery() as nursery:
        nursery.start_soon(end_in_time, lambda: {told}, {limit_s})
        nursery.start_soon(trio.to_thread.run_sync, threading.Event().wait, {wait_s})
        nursery.start_soon(fail)

try:
    trio.run(main)
except ExceptionGroup:
    ended_in_time()
    sys.exit(5 if signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0) else 6)
"""


def hung(
    error: str, *, told: bool = False, wait_s: float = 60.0, limit_s: float = 0.2
) -> tuple[int, str]:
    """Run such a process; its exit status, and what it said."""
    code = HUNG.format(error=error, told=told, wait_s=wait_s, limit_s=limit_s)
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )
    return done.returncode, done.stderr.strip()


@pytest.mark.parametrize(
    "error",
    [
        "MemoryError()",
        "OSError(12, 'Cannot allocate memory')",
        "ExceptionGroup('g', [MemoryError()])",
    ],
)
def test_one_that_lacks_memory_and_waits_for_a_dead_thread_ends_and_says_why(error: str) -> None:
    assert hung(error) == (EXIT_OUT_OF_MEMORY, NO_MEMORY)


def test_one_that_is_broken_otherwise_ends_as_broken() -> None:
    status, said = hung("ValueError('odd')")
    assert status == EXIT_BROKEN
    assert said.startswith("node: broken, and did not end by itself:")
    assert "odd" in said


def test_one_that_unwinds_in_time_ends_by_itself_however_long_that_takes_it() -> None:
    assert hung("MemoryError()", wait_s=0.1, limit_s=30) == (5, "")


def test_one_that_was_told_to_stop_has_no_such_limit() -> None:
    assert hung("MemoryError()", told=True, wait_s=0.6) == (5, "")


def _caused(error: Exception, cause: BaseException) -> Exception:
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    ("error", "is_lack"),
    [
        (MemoryError(), True),
        (OSError(errno.ENOMEM, "no"), True),
        (OSError(errno.EIO, "no"), False),
        (RuntimeError("can't start new thread"), True),
        (RuntimeError("other"), False),
        (ExceptionGroup("", [ValueError(), ExceptionGroup("", [MemoryError()])]), True),
        (ExceptionGroup("", [ValueError()]), False),
        (_caused(trio.TrioInternalError(), ExceptionGroup("", [MemoryError()])), True),
        (_caused(trio.TrioInternalError(), ValueError()), False),
        (trio.TrioInternalError(), False),
    ],
)
def test_lack_of_memory_has_many_forms(error: Exception, is_lack: bool) -> None:
    assert is_lack_of_memory(error) is is_lack
