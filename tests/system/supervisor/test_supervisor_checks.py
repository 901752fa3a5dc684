"""What an orchestrator is told: alive, ready, at capacity."""

from __future__ import annotations

import msgspec
import pytest

from atleastonce.system.supervisor.checks import (
    Sight,
    check_capacity,
    check_liveness,
    check_readiness,
    not_consuming,
)
from atleastonce.system.supervisor.records import PoolState, Status, WorkerStatus

SECOND = 1_000_000_000
NOW = 1_000 * SECOND


def worker(pid: int, failing_s: float | None = None) -> WorkerStatus:
    failing_ns = None if failing_s is None else NOW - round(failing_s * SECOND)
    return WorkerStatus(
        pid=pid, state="idle", job=None, since_ns=NOW, leases=0, failing_since_ns=failing_ns
    )


HEALTHY = Status(
    t_ns=NOW,
    master=7,
    fork_server=8,
    state="running",
    circuit="closed",
    workers=[worker(9), worker(10)],
    desired=2,
)


def codes(sight: Sight) -> tuple[list[str], list[str], list[str]]:
    """What liveness, readiness and capacity complain of."""
    checks = (check_liveness, check_readiness, check_capacity)
    found = [[reason.code for reason in check(sight)] for check in checks]
    return found[0], found[1], found[2]


def with_workers(*workers: WorkerStatus) -> Status:
    return msgspec.structs.replace(HEALTHY, workers=list(workers))


def test_a_healthy_supervisor_is_all_three() -> None:
    assert codes(Sight(HEALTHY, 7, NOW)) == ([], [], [])


@pytest.mark.parametrize(
    ("sight", "code"),
    [
        (Sight(None, None, NOW), "not-running"),
        (Sight(HEALTHY, None, NOW), "not-running"),
        (Sight(None, 7, NOW), "no-status"),
        (Sight(HEALTHY, 6, NOW), "no-status"),
        (Sight(HEALTHY, 7, NOW + 15 * SECOND + 1), "no-heartbeat"),
    ],
)
def test_without_lock_or_heartbeat_it_is_not_alive_and_nothing_else(
    sight: Sight, code: str
) -> None:
    alive, ready, _ = codes(sight)
    assert (alive, ready) == ([code], [code])


def test_a_heartbeat_of_just_its_bound_is_one() -> None:
    assert codes(Sight(HEALTHY, 7, NOW + 15 * SECOND)) == ([], [], [])


@pytest.mark.parametrize("state", ["starting", "pausing", "paused", "terminating"])
def test_what_does_not_run_is_alive_and_not_ready(state: PoolState) -> None:
    status = msgspec.structs.replace(HEALTHY, state=state)
    assert codes(Sight(status, 7, NOW)) == ([], [state], [state])


def test_one_worker_is_ready_and_below_capacity() -> None:
    assert codes(Sight(with_workers(worker(9)), 7, NOW)) == ([], [], ["below-capacity"])


def test_no_worker_is_not_ready() -> None:
    sight = Sight(with_workers(), 7, NOW)
    assert codes(sight) == ([], ["no-workers"], ["no-workers", "below-capacity"])


def test_an_open_circuit_is_no_full_capacity() -> None:
    status = msgspec.structs.replace(HEALTHY, circuit="open")
    assert codes(Sight(status, 7, NOW)) == ([], [], ["circuit"])


def test_workers_count_as_long_as_one_of_them_gets_jobs() -> None:
    sight = Sight(with_workers(worker(9, 60.0), worker(10, 59.9)), 7, NOW)
    assert codes(sight) == ([], [], ["below-capacity"])
    assert not_consuming(with_workers(worker(9, 60.0), worker(10, 59.9)), NOW) == [9]


def test_when_none_gets_jobs_it_is_alive_and_not_ready() -> None:
    sight = Sight(with_workers(worker(9, 60.0), worker(10, 600.0)), 7, NOW)
    assert codes(sight) == ([], ["not-consuming"], ["not-consuming", "below-capacity"])
