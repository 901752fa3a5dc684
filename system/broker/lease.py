"""Lease arithmetic: the position of one consumer group in one partition, and how it moves.

A `Position` is the whole state of a cursor; there is no state per message. Every transition is a
pure function from a position to the next one. House rules:

- A lease covers the offsets first..last of one claim and is live while now < expires. At the
  instant `expires` it is dead: another pop may claim, and the old holder's acks are refused.
- A dead lease stays in the position until something replaces or settles it; it fences nothing.
- Time is the stamp of the batch being applied, never a clock.
- The attempt marker (offset, count) says where the latest leased delivery started and how many
  deliveries in a row started there. A leased delivery that starts at the marked offset counts one
  more; any other start counts 1.
- A claim at the marked offset never reaches beyond the delivery that it repeats, so that its number
  says the same of all its messages.
- A marker that would move behind the last message of its delivery is cleared instead.
- Only an explicit `failed` spends the retry budget. Expiry and crashes raise the attempt count
  and nothing else.

| event | committed | lease | attempt marker | retry count |
|---|---|---|---|---|
| claim at f, f is marked | = | new | count + 1 | = |
| claim at f, else | = | new | (f, 1) | = |
| delivery with auto-ack to l | l | none | cleared | 0 |
| expiry | = | dead | = | = |
| extend | = | longer | = | = |
| take back | = | none | as before the claim | = |
| completed to c < last of the batch | c | = | moves to c + 1 | = |
| completed to last or beyond, or outside any batch | c | released | cleared | 0 |
| failed, budget left, prefix c | c | released | moves to c + 1 | + 1 |
| retry, prefix c | c | released | moves to c + 1 | = |
| filed or dropped to c | c | released | cleared | 0 |
"""

from __future__ import annotations

import sys
from typing import Final

import msgspec

from .commands import AckStatus
from .replies import AckedItem

LEASE_S_MAX: Final = 7 * 86_400
"""Longest lease that a pop or an extension gets; longer requests get this."""

UNMARKED: Final = -1


class Lease(msgspec.Struct, frozen=True):
    """One claim's hold on the offsets first..last of a partition."""

    lease_id: str
    first: int
    last: int
    expires_us: int

    def is_live(self, now_us: int) -> bool:
        """Whether it still fences."""
        return now_us < self.expires_us


class Released(msgspec.Struct, frozen=True):
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


class Position(msgspec.Struct, frozen=True):
    """A cursor's state.

    Attributes:
        committed: Highest offset behind the cursor; -1 at the start.
        lease: At most one, live or dead.
        attempt_offset: Where the latest leased delivery started, or `UNMARKED`.
        attempt_count: How many deliveries in a row started there.
        retry_count: How much of the retry budget is spent.
        released: See `Released`.
        attempt_last: Last offset of the marked deliveries, or `UNMARKED`.
    """

    committed: int = -1
    lease: Lease | None = None
    attempt_offset: int = UNMARKED
    attempt_count: int = 0
    retry_count: int = 0
    released: Released | None = None
    attempt_last: int = UNMARKED


def expiry_us(now_us: int, lease_s: int) -> int:
    """When a lease of so many seconds, taken now, is dead."""
    return now_us + min(max(1, lease_s), LEASE_S_MAX) * 1_000_000


def claimed(position: Position, lease: Lease) -> Position:
    """The position after a leased delivery of the lease's batch."""
    again = position.attempt_offset == lease.first
    return Position(
        position.committed,
        lease,
        lease.first,
        position.attempt_count + 1 if again else 1,
        position.retry_count,
        position.released,
        max(lease.last, position.attempt_last) if again else lease.last,
    )


def redelivered_messages_max(position: Position, first: int) -> int:
    """How many messages a claim at `first` may take without charging one that is new to it.

    All messages of a claim carry one attempt number. A claim that repeats the marked delivery
    therefore ends where that delivery ended: what was pushed behind it has not been delivered yet.
    """
    if position.attempt_offset != first:
        return sys.maxsize
    return position.attempt_last - first + 1


def delivered(position: Position, last: int) -> Position:
    """The position after a delivery with auto-ack up to an offset."""
    return Position(last, released=position.released)


def extended(position: Position, now_us: int, seconds: int) -> Position:
    """Move the deadline to at least now + max(1, seconds); never nearer."""
    lease = position.lease
    assert lease is not None
    assert lease.is_live(now_us), f"lease {lease.lease_id} died at {lease.expires_us}, now {now_us}"
    deadline = max(lease.expires_us, expiry_us(now_us, seconds))
    longer = Lease(lease.lease_id, lease.first, lease.last, deadline)
    return msgspec.structs.replace(position, lease=longer)


def taken_back(position: Position, before: Position) -> Position:
    """Undo a claim: no lease, and the attempt marker of the position that it started from.

    When acks without a lease have moved the cursor since, only the lease goes.
    """
    if position.committed != before.committed:
        return msgspec.structs.replace(position, lease=None)
    return msgspec.structs.replace(
        position,
        lease=None,
        attempt_offset=before.attempt_offset,
        attempt_count=before.attempt_count,
        attempt_last=before.attempt_last,
    )


def completed(position: Position, through: int, now_us: int) -> Position:
    """Commit up to an offset beyond `committed`, without any signal."""
    assert through > position.committed, f"{through} <= {position.committed}"
    last = _batch_last(position)
    if last is None or through >= last:
        return Position(through, released=_remembered(position, now_us, None))
    return _marker_moved(msgspec.structs.replace(position, committed=through))


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
    moved = msgspec.structs.replace(
        position,
        committed=through,
        lease=None,
        retry_count=position.retry_count + charge,
        released=_remembered(position, now_us, answers),
    )
    return _marker_moved(moved)


def filed(
    position: Position, through: int, now_us: int, answers: dict[str, tuple[AckStatus, AckedItem]]
) -> Position:
    """Commit past messages that were filed as dead letters (or dropped), and release."""
    return Position(through, released=_remembered(position, now_us, answers))


def _batch_last(position: Position) -> int | None:
    """Last offset of the batch in delivery, or of the marked one after its release, if any."""
    if position.lease is not None:
        return position.lease.last
    return None if position.attempt_offset == UNMARKED else position.attempt_last


def _marker_moved(position: Position) -> Position:
    """Move the attempt marker to the first unacked offset; clear it behind the marked delivery.

    Acks without a lease can pass the whole delivery and more.
    """
    offset = position.committed + 1
    if offset <= position.attempt_offset or position.attempt_offset == UNMARKED:
        return position
    if offset > position.attempt_last:
        return msgspec.structs.replace(
            position, attempt_offset=UNMARKED, attempt_count=0, attempt_last=UNMARKED
        )
    return msgspec.structs.replace(position, attempt_offset=offset)


def _remembered(
    position: Position, now_us: int, answers: dict[str, tuple[AckStatus, AckedItem]] | None
) -> Released | None:
    lease = position.lease
    if lease is None or not lease.is_live(now_us):
        return position.released
    return Released(lease.lease_id, lease.first, lease.last, answers)
