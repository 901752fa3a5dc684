"""Lease arithmetic: the position of one consumer group in one partition, and how it moves.

A `Position` is the whole state of a cursor; there is no state per message. Every transition is a
pure function from a position to the next one. House rules:

- A lease covers the offsets first..last of one claim and is live while now < expires. At the
  instant `expires` it is dead: another pop may claim, and the old holder's acks are refused.
- A dead lease stays in the position until something replaces or settles it; it fences nothing.
- Time is the stamp of the batch being applied, never a clock.
- Marks say how often what lies beyond the cursor was delivered under a lease: (last, count) pairs,
  each for the offsets up to `last` that no mark before it covers. A leased delivery counts one more
  than the mark that it starts in, or 1, and never reaches beyond that mark: all messages of a
  delivery carry one number, and it must be true of each. A count of 0 keeps what counts anew apart
  from what does not.
- Only an explicit `failed` spends the retry budget. Expiry and crashes raise the attempt count
  and nothing else.

| event | committed | lease | marks | retry count |
|---|---|---|---|---|
| claim of f..l, f is marked | = | new | count + 1 up to l, what follows = | = |
| claim of f..l, else | = | new | 1 up to l | = |
| delivery with auto-ack to l | l | none | up to l cleared | 0 |
| expiry | = | dead | = | = |
| extend | = | longer | = | = |
| take back | = | none | as before the claim | = |
| completed to c < last of the batch | c | = | up to c cleared | = |
| completed to last or beyond, or outside any batch | c | released | up to c cleared | 0 |
| failed, budget left, prefix c | c | released | up to c cleared | + 1 |
| retry, prefix c | c | released | up to c cleared | = |
| filed or dropped to c | c | released | cleared for the whole batch | 0 |
| retention by time to c | c | none (a live one holds retention back) | up to c cleared | 0 |
"""

from __future__ import annotations

import sys
from typing import Final

import msgspec

from .commands import AckStatus
from .replies import AckedItem

LEASE_S_MAX: Final = 7 * 86_400
"""Longest lease that a pop or an extension gets; longer requests get this."""


class Lease(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One claim's hold on the offsets first..last of a partition."""

    lease_id: str
    first: int
    last: int
    expires_us: int

    def is_live(self, now_us: int) -> bool:
        """Whether it still fences."""
        return now_us < self.expires_us


class Released(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The last lease that an ack released, so that a repeat of that ack gets its first answer.

    Attributes:
        lease_id: The lease.
        first: First offset of its batch.
        last: Last offset of its batch.
        answers: Transaction id to (status, first answer) when the settling call said anything but
            completed; None when all of the batch is behind the cursor anyway.
    """

    lease_id: str
    first: int
    last: int
    answers: dict[str, tuple[AckStatus, AckedItem]] | None


class Position(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A cursor's state.

    Attributes:
        committed: Highest offset behind the cursor; -1 at the start.
        lease: At most one, live or dead.
        retry_count: How much of the retry budget is spent.
        released: See `Released`.
        marks: Deliveries of what lies beyond the cursor, (last offset, count) by rising offset.
    """

    committed: int = -1
    lease: Lease | None = None
    retry_count: int = 0
    released: Released | None = None
    marks: tuple[tuple[int, int], ...] = ()

    @property
    def attempt(self) -> int:
        """Number of the delivery that the cursor stands before, or in."""
        return self.marks[0][1] if self.marks else 0


def expiry_us(now_us: int, lease_s: int) -> int:
    """When a lease of so many seconds, taken now, is dead."""
    return now_us + min(max(1, lease_s), LEASE_S_MAX) * 1_000_000


def claimed(position: Position, lease: Lease) -> Position:
    """The position after a leased delivery of the lease's batch."""
    marks = _beyond(position.marks, lease.first - 1)
    count = marks[0][1] + 1 if marks else 1
    return Position(
        position.committed,
        lease,
        position.retry_count,
        position.released,
        ((lease.last, count), *_beyond(marks, lease.last)),
    )


def redelivered_messages_max(position: Position, first: int) -> int:
    """How many messages a claim at `first` may take so that one number is true of them all."""
    marks = _beyond(position.marks, first - 1)
    return marks[0][0] - first + 1 if marks else sys.maxsize


def delivered(position: Position, last: int) -> Position:
    """The position after a delivery with auto-ack up to an offset."""
    return Position(last, released=position.released, marks=_beyond(position.marks, last))


def extended(position: Position, now_us: int, seconds: int) -> Position:
    """Move the deadline to at least now + max(1, seconds); never nearer."""
    lease = position.lease
    assert lease is not None
    assert lease.is_live(now_us), f"lease {lease.lease_id} died at {lease.expires_us}, now {now_us}"
    deadline = max(lease.expires_us, expiry_us(now_us, seconds))
    longer = Lease(lease.lease_id, lease.first, lease.last, deadline)
    return msgspec.structs.replace(position, lease=longer)


def taken_back(position: Position, before: Position) -> Position:
    """Undo a claim: no lease, and the marks of the position that it started from.

    When acks without a lease have moved the cursor since, only the lease goes.
    """
    if position.committed != before.committed:
        return msgspec.structs.replace(position, lease=None)
    return msgspec.structs.replace(position, lease=None, marks=before.marks)


def completed(position: Position, through: int, now_us: int) -> Position:
    """Commit up to an offset beyond `committed`, without any signal."""
    assert through > position.committed, f"{through} <= {position.committed}"
    last = _batch_last(position)
    marks = _beyond(position.marks, through)
    if last is None or through >= last:
        return Position(through, released=_remembered(position, now_us, None), marks=marks)
    return msgspec.structs.replace(position, committed=through, marks=marks)


def returned(
    position: Position,
    through: int,
    now_us: int,
    charge: int,
    answers: dict[str, tuple[AckStatus, AckedItem]],
) -> Position:
    """Commit the completed prefix and release, so that the rest is delivered again.

    Args:
        position: Where it stands.
        through: End of the prefix, at least `committed`.
        now_us: Stamp.
        charge: 1 for `failed`, 0 for `retry`.
        answers: What the settling call answers.
    """
    return msgspec.structs.replace(
        position,
        committed=through,
        lease=None,
        retry_count=position.retry_count + charge,
        released=_remembered(position, now_us, answers),
        marks=_beyond(position.marks, through),
    )


def filed(
    position: Position, through: int, now_us: int, answers: dict[str, tuple[AckStatus, AckedItem]]
) -> Position:
    """Commit past messages that were filed as dead letters (or dropped), and release.

    The rest of the batch counts anew; what an earlier, longer delivery held beyond it does not.
    """
    last = _batch_last(position)
    end = through if last is None else max(through, last)
    marks = _beyond(position.marks, end)
    if marks and end > through:
        marks = ((end, 0), *marks)
    return Position(through, released=_remembered(position, now_us, answers), marks=marks)


def passed_over(position: Position, through: int, now_us: int) -> Position:
    """The position after messages up to an offset have left the log by their age."""
    lease = position.lease
    assert lease is None or not lease.is_live(now_us), f"lease {lease} is live at {now_us}"
    assert through > position.committed, f"{through} <= {position.committed}"
    return Position(through, released=position.released, marks=_beyond(position.marks, through))


def _batch_last(position: Position) -> int | None:
    """Last offset of the batch in delivery, or of the marked one after its release, if any."""
    if position.lease is not None:
        return position.lease.last
    return position.marks[0][0] if position.attempt else None


def _beyond(marks: tuple[tuple[int, int], ...], offset: int) -> tuple[tuple[int, int], ...]:
    """Drop what says nothing of any offset beyond this one."""
    if not marks or marks[0][0] > offset:
        return marks
    return tuple(mark for mark in marks if mark[0] > offset)


def _remembered(
    position: Position, now_us: int, answers: dict[str, tuple[AckStatus, AckedItem]] | None
) -> Released | None:
    lease = position.lease
    if lease is None or not lease.is_live(now_us):
        return position.released
    return Released(lease.lease_id, lease.first, lease.last, answers)
