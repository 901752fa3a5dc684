"""Exit classification: raw wait status and marker, made one word."""

from __future__ import annotations

import pytest

from atleastonce.system.supervisor.core.exits import (
    Exit,
    classify_exit,
    exit_code,
    exit_signal,
)

KILLED = 9
SEGMENTATION_FAULT_WITH_CORE = 11 | 0x80


def exited(code: int) -> int:
    return code << 8


@pytest.mark.parametrize(
    ("status", "marker", "expected"),
    [
        (exited(0), None, Exit.CLEAN),
        (exited(0), "restart", Exit.CLEAN),
        (exited(0), "timeout", Exit.CLEAN),
        (exited(12), "memory", Exit.RECYCLE),
        (exited(12), None, Exit.CRASH),
        (exited(12), "timeout", Exit.CRASH),
        (exited(1), None, Exit.CRASH),
        (exited(1), "memory", Exit.CRASH),
        (KILLED, "timeout", Exit.TIMEOUT),
        (KILLED, None, Exit.CRASH),
        (KILLED, "memory", Exit.CRASH),
        (KILLED, "restart", Exit.CRASH),
        (exited(137), "timeout", Exit.CRASH),
        (15, "timeout", Exit.CRASH),
        (SEGMENTATION_FAULT_WITH_CORE, None, Exit.CRASH),
    ],
)
def test_a_marker_counts_only_with_its_own_exit(
    status: int, marker: str | None, expected: Exit
) -> None:
    assert classify_exit(status, marker) is expected


def test_planted_bug_makes_a_timeout_a_crash() -> None:
    bugs = frozenset({"timeout-counts-as-crash"})
    assert classify_exit(KILLED, "timeout", bugs) is Exit.CRASH
    assert classify_exit(exited(0), None, bugs) is Exit.CLEAN


def test_status_is_split_into_signal_or_code() -> None:
    assert (exit_signal(KILLED), exit_code(KILLED)) == (9, None)
    assert (exit_signal(SEGMENTATION_FAULT_WITH_CORE), exit_code(exited(3))) == (11, 3)
    assert (exit_signal(exited(3)), exit_code(exited(255))) == (None, 255)
