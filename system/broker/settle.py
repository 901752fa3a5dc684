"""Settling a batch: what the acks of one call do to one cursor. Pure, over a `Position`.

The call's items for one (partition, group, lease) are judged together. The *head* is the lowest
offset with a signal (`failed`, `retry` or `dlq`); the cursor moves over the completed prefix below
it. Acking an offset completes the silent gap before it. What the head's signal does:

| head | effect |
|---|---|
| none | the cursor moves; at the end of the batch the lease is released |
| `failed`, budget left | prefix committed, released, one retry charged for the whole call |
| `failed`, budget spent | head filed (or dropped), then the unbroken run above it settled |
| `retry` | prefix committed, released, nothing charged |
| `dlq` | as `failed` with a spent budget, but always filed |

Items that are refused change nothing: the lease stays as it was.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from .commands import AckItem, AckStatus
from .lease import Position, completed, filed, returned
from .replies import AckedItem

NO_CONSUMER: Final = "consumer not found"
STALE_LEASE: Final = "invalid or expired lease"
COMMITTED: Final = "already committed: the cursor is past this message"
UNRESOLVABLE: Final = "unresolvable: no such message in this batch"
EXHAUSTED: Final = "Retries exhausted"

_SEVERITY: Final[dict[AckStatus, int]] = {"dlq": 0, "failed": 1, "retry": 2}

Resolve = Callable[[str, int, int], int | None]
"""`Partition.resolve`: (transaction id, committed, last) to an offset."""


@dataclass(frozen=True, slots=True)
class Terms:
    """What else decides a settlement.

    Attributes:
        now_us: Stamp.
        end: First offset beyond the partition's log.
        retry_limit: Explicit `failed` acks that deliver again.
        files: Whether exhausted messages are filed (else dropped).
        conflates: Whether a claim delivers only its last message, whose ack then completes it all.
        recalls: Whether the last released lease's acks may be repeated (not in transactions,
            where a repeat would repeat the pushes beside it).
    """

    now_us: int
    end: int
    retry_limit: int
    files: bool
    conflates: bool = False
    recalls: bool = True


@dataclass(slots=True)
class Settlement:
    """The outcome for one cursor.

    Attributes:
        position: The new position; the same object when nothing changed.
        answers: One for each item, in their order.
        dead: (offset, error, retries spent) to file, in offset order.
    """

    position: Position
    answers: list[AckedItem]
    dead: list[tuple[int, str, int]] = field(default_factory=list)


def refuse(items: Sequence[AckItem], error: str) -> list[AckedItem]:
    """Refuse all items alike."""
    return [AckedItem(item.transaction_id, False, error) for item in items]


def settle(
    position: Position, items: Sequence[AckItem], resolve: Resolve, terms: Terms
) -> Settlement:
    """Settle items that carry the same lease id, or none, against a contacted cursor."""
    lease, lease_id = position.lease, items[0].lease_id
    last = terms.end - 1
    if lease_id:
        if lease is None or lease.lease_id != lease_id or not lease.is_live(terms.now_us):
            return Settlement(position, _recall(position, items, resolve, terms))
        last = lease.last
    offsets = [resolve(item.transaction_id, position.committed, last) for item in items]
    head = _head(position, items, offsets)
    if head is None:
        return _complete(position, items, offsets, terms)
    return _signal(position, items, offsets, head, terms)


def _head(
    position: Position, items: Sequence[AckItem], offsets: Sequence[int | None]
) -> tuple[int, int, int] | None:
    """(offset, severity, place in the call) of the lowest signal above the cursor."""
    head: tuple[int, int, int] | None = None
    for place, (item, offset) in enumerate(zip(items, offsets, strict=True)):
        if item.status != "completed" and offset is not None and offset > position.committed:
            signal = (offset, _SEVERITY[item.status], place)
            if head is None or signal < head:
                head = signal
    return head


def _complete(
    position: Position, items: Sequence[AckItem], offsets: Sequence[int | None], terms: Terms
) -> Settlement:
    through = position.committed
    for item, offset in zip(items, offsets, strict=True):
        if offset is not None and offset > through and item.status == "completed":
            through = offset
    lease = position.lease
    if terms.conflates and items[0].lease_id and lease is not None and through > position.committed:
        through = lease.last
    moved = completed(position, through, terms.now_us) if through > position.committed else position
    released = position.lease is not None and moved.lease is None
    answers = [
        _answer(item, offset, position.committed, released)
        for item, offset in zip(items, offsets, strict=True)
    ]
    return Settlement(moved, answers)


def _signal(
    position: Position,
    items: Sequence[AckItem],
    offsets: Sequence[int | None],
    head: tuple[int, int, int],
    terms: Terms,
) -> Settlement:
    prefix = position.committed
    for item, offset in zip(items, offsets, strict=True):
        if offset is not None and prefix < offset < head[0] and item.status == "completed":
            prefix = offset
    status = items[head[2]].status
    buries = status == "dlq" or (status == "failed" and position.retry_count >= terms.retry_limit)
    through, dead = prefix, list[tuple[int, str, int]]()
    if buries:
        through, dead = _bury(position, items, offsets, head, terms)
    buried = {offset for offset, _, _ in dead}
    released = position.lease is not None
    answers = [
        _answer(item, offset, position.committed, released, offset in buried)
        for item, offset in zip(items, offsets, strict=True)
    ]
    memory = {
        item.transaction_id: (item.status, answer)
        for item, answer in zip(items, answers, strict=True)
        if answer.success
    }
    if buries:
        moved = filed(position, through, terms.now_us, memory)
    else:
        charge = 1 if status == "failed" else 0
        moved = returned(position, through, terms.now_us, charge, memory)
    return Settlement(moved, answers, dead)


def _bury(
    position: Position,
    items: Sequence[AckItem],
    offsets: Sequence[int | None],
    head: tuple[int, int, int],
    terms: Terms,
) -> tuple[int, list[tuple[int, str, int]]]:
    """Settle the head and the unbroken run of items above it.

    Returns how far the cursor goes and what is to be filed.
    """
    worst: dict[int, AckItem] = {}
    for item, offset in zip(items, offsets, strict=True):
        if offset is not None and offset >= head[0]:
            known = worst.get(offset)
            if known is None or _SEVERITY.get(item.status, 3) < _SEVERITY.get(known.status, 3):
                worst[offset] = item
    fallback = next((item.error for item in items if item.error), EXHAUSTED)
    dead: list[tuple[int, str, int]] = []
    offset = head[0]
    while offset in worst and (offset == head[0] or worst[offset].status != "retry"):
        item = worst[offset]
        if item.status == "dlq" or (item.status == "failed" and terms.files):
            spent = position.retry_count if offset == head[0] else 0
            dead.append((offset, item.error or fallback, spent))
        offset += 1
    return offset - 1, dead


def _answer(
    item: AckItem, offset: int | None, committed: int, released: bool, dlq: bool = False
) -> AckedItem:
    if offset is None:
        return AckedItem(item.transaction_id, False, UNRESOLVABLE)
    if offset > committed:
        return AckedItem(item.transaction_id, True, "", released, dlq, False)
    if item.status == "completed":
        return AckedItem(item.transaction_id, True, "", released, False, True)
    return AckedItem(item.transaction_id, False, COMMITTED)


def _recall(
    position: Position, items: Sequence[AckItem], resolve: Resolve, terms: Terms
) -> list[AckedItem]:
    """Answer acks under a lease that is not live: again if it is the last released one."""
    released = position.released
    if released is None or released.lease_id != items[0].lease_id or not terms.recalls:
        return refuse(items, STALE_LEASE)
    answers: list[AckedItem] = []
    for item in items:
        name = item.transaction_id
        first = released.answers.get(name) if released.answers is not None else None
        offset = resolve(name, released.first - 1, released.last)
        inside = offset is not None and released.first <= offset <= position.committed
        if first is not None and first[0] == item.status:
            answers.append(first[1])
        elif inside and item.status == "completed":
            answers.append(AckedItem(name, True, "", lease_released=True))
        else:
            answers.append(AckedItem(name, False, STALE_LEASE))
    return answers
