"""Answers about a supervisor that an orchestrator asks for: alive, ready, at capacity. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from .records import Status

_NS = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Sight:
    """What can be seen of a supervisor from outside.

    Attributes:
        status: Its status file, or None when there is none.
        holder: Pid of the process that holds the state directory, or None when nobody does.
        now_ns: CLOCK_MONOTONIC when it was looked at.
    """

    status: Status | None
    holder: int | None
    now_ns: int


@dataclass(frozen=True, slots=True)
class Reason:
    """Why an answer is no.

    Attributes:
        code: A word for programs.
        text: A sentence for people.
    """

    code: str
    text: str


def check_liveness(sight: Sight) -> Iterator[Reason]:
    """Yield why the master is not alive: nobody holds the lock, or its heartbeat has stopped.

    Neither the broker nor any job can make a living master fail this.
    """
    status = sight.status
    if sight.holder is None:
        yield Reason("not-running", "no supervisor holds the state directory")
        if status is not None and status.start_failure is not None:
            yield _start_failed(status.start_failure)
    elif status is None:
        yield Reason("no-status", "there is no status file yet")
    elif sight.holder not in (0, status.master):
        yield Reason(
            "no-status", f"the status file is of pid {status.master}, the lock of {sight.holder}"
        )
    else:
        age_s = (sight.now_ns - status.t_ns) / _NS
        if age_s > status.heartbeat_timeout_s:
            yield Reason(
                "no-heartbeat",
                f"the last heartbeat is {age_s:.1f} s old; at most "
                f"{status.heartbeat_timeout_s:g} s",
            )


def check_readiness(sight: Sight) -> Iterator[Reason]:
    """Yield why jobs are not being taken: not alive, not running, or no worker that gets any."""
    unwell = list(check_liveness(sight))
    status = sight.status
    if unwell or status is None:
        yield from unwell
        return
    if status.start_failure is not None:
        yield _start_failed(status.start_failure)
    if status.state != "running":
        yield Reason(status.state, f"the supervisor is {status.state}")
    elif status.maintenance != "off" and not status.has_forced:
        yield Reason("maintenance", "maintenance mode is on, and no pool has force")
    elif not status.workers and status.desired > 0:
        yield Reason("no-workers", f"no worker lives; {status.desired} are wanted")
    elif status.workers:
        failing = not_consuming(status, sight.now_ns)
        if len(failing) == len(status.workers):
            yield Reason(
                "not-consuming",
                f"no worker's pops have been answered for {status.not_consuming_after_s:g} s",
            )


def _start_failed(failure: str) -> Reason:
    return Reason("start-failed", f"the code cannot be loaded: {failure}")


def check_capacity(sight: Sight) -> Iterator[Reason]:
    """Yield why there is less capacity than wanted: not ready, too few, or an open circuit."""
    unready = list(check_readiness(sight))
    status = sight.status
    if status is None:
        yield from unready
        return
    yield from unready
    failing = not_consuming(status, sight.now_ns)
    consuming = len(status.workers) - len(failing)
    if consuming < status.desired:
        yield Reason("below-capacity", f"{consuming} of {status.desired} workers consume")
    if status.circuit != "closed":
        yield Reason("circuit", f"the crash circuit is {status.circuit}")


def not_consuming(status: Status, now_ns: int) -> list[int]:
    """Return the pids of workers that live, but whose pops have failed for too long."""
    bound_ns = round(status.not_consuming_after_s * _NS)
    return [
        worker.pid
        for worker in status.workers
        if worker.failing_since_ns is not None and now_ns - worker.failing_since_ns >= bound_ns
    ]
