"""Everything about one job, for the exact rules."""

from __future__ import annotations

from dataclasses import dataclass

from ..histories.dispatches import FAIL, OK
from ..histories.table import COMPLETED, GaveUp
from .facts import NEVER_NS, RAN, UNSTARTED


@dataclass(frozen=True, slots=True)
class Dispatch:
    """One dispatch of a job; see `DispatchTable` for the fields."""

    row: int
    invoke_ns: int
    done_ns: int
    result: int
    status: int
    offset: int
    tries: int
    timeout_ns: int
    not_before_ns: int
    backoff_s: tuple[float, ...]
    digest: str


@dataclass(frozen=True, slots=True)
class Delivery:
    """One delivery of a job; see `Deliveries` for the fields."""

    index: int
    process: int
    t_ns: int
    attempt: int
    kind: int
    start_ns: int
    ended_ns: int
    end_ns: int
    acked_ns: int
    outcome: int

    @property
    def is_pickup(self) -> bool:
        """Whether it ran or was refused."""
        return self.kind != UNSTARTED

    @property
    def over_ns(self) -> int:
        """When this delivery did its last act: end of the run, or when it was received."""
        return self.end_ns if self.kind == RAN else max(self.t_ns, self.start_ns)


@dataclass(frozen=True, slots=True)
class GivenUp:
    """A `gave_up` record of a job."""

    row: int
    t_ns: int
    process: int
    told: GaveUp


@dataclass(frozen=True, slots=True)
class StoredJob:
    """An entry of the dead letters, or of the failed-job store: digest of the payload, and why."""

    digest: str
    why: str


@dataclass(slots=True)
class Job:
    """One job with all that is known about it.

    Attributes:
        number: Its number.
        name: Its id.
        dispatches: In order of invocation.
        deliveries: In order of time.
        given_up: In order of time.
        letters: Its dead letters.
        rows: Its rows in the failed-job store.
    """

    number: int
    name: str
    dispatches: tuple[Dispatch, ...]
    deliveries: tuple[Delivery, ...]
    given_up: tuple[GivenUp, ...]
    letters: tuple[StoredJob, ...]
    rows: tuple[StoredJob, ...]

    @property
    def runs(self) -> list[Delivery]:
        """Deliveries that ran."""
        return [delivery for delivery in self.deliveries if delivery.kind == RAN]

    @property
    def completed(self) -> list[Delivery]:
        """Runs that completed, in order of their end."""
        done = [run for run in self.deliveries if run.outcome == COMPLETED]
        return sorted(done, key=lambda run: run.ended_ns)

    @property
    def was_given_up(self) -> bool:
        """Whether any evidence says that the engine gave it up."""
        return bool(self.given_up or self.letters or self.rows)

    @property
    def is_acknowledged(self) -> bool:
        """Whether a dispatch ended ok."""
        return any(dispatch.result == OK for dispatch in self.dispatches)

    @property
    def may_exist(self) -> bool:
        """Whether a dispatch ended ok, or may have taken effect."""
        return any(dispatch.result != FAIL for dispatch in self.dispatches)

    @property
    def first_invoke_ns(self) -> int:
        """When it was first dispatched; `NEVER_NS` for never."""
        return min(
            (dispatch.invoke_ns for dispatch in self.dispatches if dispatch.result != FAIL),
            default=NEVER_NS,
        )

    @property
    def tries(self) -> int:
        """Pickups that its dispatch allows; 0 for no limit or no dispatch."""
        return self.dispatches[0].tries if self.dispatches else 0
