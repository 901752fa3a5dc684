"""The rules of exits and of the crash circuit, one case a sentence."""

from __future__ import annotations

import heapq
from dataclasses import dataclass

import pytest

from atleastonce.system.supervisor.core.exits import Exit, classify_exit
from atleastonce.system.supervisor.core.pool import CRASH_LIMIT, Circuit, Pool, RestartPolicy

SECOND = 1_000_000
POLICY = RestartPolicy(backoff_us=SECOND, backoff_max_us=30 * SECOND, stable_after_us=60 * SECOND)
EXIT_0, EXIT_1, EXIT_12, SIGKILLED, SIGTERMED, SIGUSR2ED = 0, 1 << 8, 12 << 8, 9, 15, 12


@dataclass(frozen=True)
class After:
    """A pool of one after two crashes and one more end: what is counted, and the pause."""

    crashes: int
    pause_s: int


def start(pool: Pool, now_us: int) -> None:
    for slot in pool.due(now_us):
        pool.started(slot, now_us)


def after(exit_kind: Exit, ran_s: int = 1, idle_s: int = 0) -> After:
    """End a worker for the third time, `idle_s` and `ran_s` after the second crash's restart."""
    pool = Pool(1, POLICY)
    now_us = 0
    for _ in range(2):
        start(pool, now_us)
        pool.ended(0, Exit.CRASH, now_us)
        next_us = pool.next_us()
        assert next_us is not None
        now_us = next_us
    now_us += idle_s * SECOND
    start(pool, now_us)
    now_us += ran_s * SECOND
    pool.ended(0, exit_kind, now_us)
    next_us = pool.next_us()
    assert next_us is not None
    return After(pool.crashes, (next_us - now_us) // SECOND)


@pytest.mark.parametrize(
    ("sentence", "status", "marker", "was_asked", "expected"),
    [
        ("exit 0 is clean", EXIT_0, None, False, Exit.CLEAN),
        ("exit 0 with a restart marker is clean", EXIT_0, "restart", False, Exit.CLEAN),
        ("exit 12 with a memory marker is a recycling", EXIT_12, "memory", False, Exit.RECYCLE),
        ("exit 12 without it is a crash", EXIT_12, None, False, Exit.CRASH),
        ("a kill with a timeout marker is a timeout", SIGKILLED, "timeout", False, Exit.TIMEOUT),
        ("a kill without it is a crash", SIGKILLED, None, False, Exit.CRASH),
        ("a kill with another marker is a crash", SIGKILLED, "restart", False, Exit.CRASH),
        ("an exit with a timeout marker is none", EXIT_1, "timeout", False, Exit.CRASH),
        ("what was asked to end and did was stopped", EXIT_0, None, True, Exit.STOPPED),
        ("with a restart marker, too", EXIT_0, "restart", True, Exit.STOPPED),
        ("the asking signal itself may end it", SIGTERMED, None, True, Exit.STOPPED),
        ("either of them", SIGUSR2ED, None, True, Exit.STOPPED),
        ("what ends otherwise crashed, asked or not", SIGKILLED, None, True, Exit.CRASH),
        ("nor may it fail", EXIT_1, None, True, Exit.CRASH),
        ("a timeout stays one", SIGKILLED, "timeout", True, Exit.TIMEOUT),
        ("unasked, a signal is a crash", SIGTERMED, None, False, Exit.CRASH),
    ],
)
def test_an_end_is_classified(
    sentence: str, status: int, marker: str | None, was_asked: bool, expected: Exit
) -> None:
    assert classify_exit(status, marker, was_asked=was_asked) is expected, sentence


@pytest.mark.parametrize(
    ("sentence", "exit_kind", "ran_s", "idle_s", "expected"),
    [
        ("a clean end resets and restarts at once", Exit.CLEAN, 1, 0, After(0, 0)),
        ("so does a memory marker", Exit.RECYCLE, 1, 0, After(0, 0)),
        ("so does a crash after a stable run", Exit.CRASH, 60, 0, After(0, 0)),
        ("and a timeout after a stable run", Exit.TIMEOUT, 60, 0, After(0, 0)),
        ("a timeout restarts at once and counts nothing", Exit.TIMEOUT, 1, 0, After(2, 0)),
        ("a stopped worker likewise", Exit.STOPPED, 1, 0, After(2, 0)),
        ("and one that was killed for its lease", Exit.KILLED, 1, 0, After(2, 0)),
        ("a crash counts and doubles the pause", Exit.CRASH, 1, 0, After(3, 4)),
        ("the count begins anew a stable time later", Exit.CRASH, 30, 30, After(1, 1)),
    ],
)
def test_an_end_is_counted_and_paused_for(
    sentence: str, exit_kind: Exit, ran_s: int, idle_s: int, expected: After
) -> None:
    assert after(exit_kind, ran_s, idle_s) == expected, sentence


def probing(workers: int = 3, bugs: frozenset[str] = frozenset()) -> tuple[Pool, int]:
    """A pool whose probe, slot 0, has just started, while the other slots run since time 0."""
    pool, now_us = Pool(workers, POLICY, bugs=bugs), 0
    for _ in range(CRASH_LIMIT):
        start(pool, now_us)
        pool.ended(0, Exit.CRASH, now_us)
        next_us = pool.next_us()
        assert next_us is not None
        now_us = next_us
    assert pool.due(now_us) == (0,)
    pool.started(0, now_us)
    assert pool.circuit is Circuit.PROBING
    return pool, now_us


def test_the_fifth_crash_opens_the_circuit_for_the_longest_pause() -> None:
    _, now_us = probing(1)
    assert now_us == (1 + 2 + 4 + 8 + 30) * SECOND


@pytest.mark.parametrize(
    ("exit_kind", "circuit", "pause_s"),
    [
        (Exit.CLEAN, Circuit.CLOSED, 0),
        (Exit.RECYCLE, Circuit.CLOSED, 0),
        (Exit.CRASH, Circuit.OPEN, 30),
        (Exit.TIMEOUT, Circuit.OPEN, 0),
        (Exit.STOPPED, Circuit.OPEN, 0),
        (Exit.KILLED, Circuit.OPEN, 0),
    ],
)
def test_the_end_of_the_probe_decides_or_releases_the_probe(
    exit_kind: Exit, circuit: Circuit, pause_s: int
) -> None:
    pool, now_us = probing()
    pool.ended(0, exit_kind, now_us + SECOND)
    assert (pool.circuit, pool.next_us()) == (circuit, now_us + (1 + pause_s) * SECOND)


def test_a_probe_that_cannot_be_started_has_crashed() -> None:
    pool, now_us = probing()
    pool.ended(0, Exit.TIMEOUT, now_us)
    assert pool.due(now_us) == (0,)
    pool.start_failed(0, now_us)
    assert (pool.circuit, pool.next_us()) == (Circuit.OPEN, now_us + 30 * SECOND)


@pytest.mark.parametrize("exit_kind", list(Exit))
def test_while_a_probe_exists_the_ends_of_its_siblings_count_for_nothing(exit_kind: Exit) -> None:
    pool, now_us = probing()
    pool.ended(1, exit_kind, now_us + 59 * SECOND)
    assert (pool.circuit, pool.due(now_us + 59 * SECOND)) == (Circuit.PROBING, ())
    assert set(pool.due(now_us + 60 * SECOND)) == {1}
    assert pool.circuit is Circuit.CLOSED


def starts_of_crashers(bugs: frozenset[str]) -> int:
    """Five minutes of eight slots: four crash after 0.1 s, four are recycled after 20 s."""
    pool, now_us, starts = Pool(8, POLICY, bugs=bugs), 0, 0
    ends: list[tuple[int, int]] = []
    while now_us < 300 * SECOND:
        for slot in pool.due(now_us):
            pool.started(slot, now_us)
            starts += slot < 4
            heapq.heappush(ends, (now_us + (SECOND // 10 if slot < 4 else 20 * SECOND), slot))
        next_us = pool.next_us()
        times_us = [t for t in (next_us, ends[0][0] if ends else None) if t is not None]
        now_us = max(now_us, min(times_us))
        while ends and ends[0][0] <= now_us:
            _, slot = heapq.heappop(ends)
            pool.ended(slot, Exit.CRASH if slot < 4 else Exit.RECYCLE, now_us)
    return starts


def test_a_crash_loop_beside_healthy_siblings_is_held_down_unless_planted() -> None:
    held = starts_of_crashers(frozenset())
    assert held <= 4 + CRASH_LIMIT + 300 // 30
    assert starts_of_crashers(frozenset({"circuit-closed-by-sibling"})) > 2 * held


def test_planted_bug_lets_a_sibling_close_the_circuit() -> None:
    pool, now_us = probing(bugs=frozenset({"circuit-closed-by-sibling"}))
    pool.ended(1, Exit.RECYCLE, now_us + SECOND)
    assert pool.circuit is Circuit.CLOSED
