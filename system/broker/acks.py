"""Ack: finds the cursors that a call's items belong to and settles each once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from .commands import Ack, AckItem
from .cursors import Cursor
from .lease import Position
from .mint import Mint
from .replies import AckedItem, AckReply
from .settle import NO_CONSUMER, Settlement, Terms, refuse, settle
from .state import State

Address = tuple[str, str, str]
"""(partition id, group, lease id): items with one address are judged together."""


def ack(state: State, mint: Mint, command: Ack) -> AckReply:
    """Settle all items, one settlement for each (partition, lease) of the call.

    Cost: the items, plus the messages that they complete.
    """
    items = command.items
    charges = any(item.status != "completed" for item in items)
    if charges:
        first = state.outcomes.first("ack", command.request_id)
        if isinstance(first, AckReply):
            return first
    answers: dict[int, AckedItem] = {}
    for (partition_id, group, _), places in by_address((item, command.group) for item in items):
        own = [items[place] for place in places]
        cursor = contacted_cursor(state, partition_id, group)
        if cursor is None:
            answers.update(zip(places, refuse(own, NO_CONSUMER), strict=True))
            continue
        before = cursor.position
        settlement = settle_on(state, cursor, before, own)
        carry_out(state, mint, cursor, own[0].lease_id, settlement)
        told = settlement.answers
        if cursor.group.conflates:
            told = _with_skipped(told, settlement.position.committed - before.committed - 1)
        answers.update(zip(places, told, strict=True))
    reply = AckReply(tuple(answers[place] for place in range(len(items))))
    if charges:
        state.outcomes.remember("ack", command.request_id, reply, state.now_us)
    return reply


def _with_skipped(answers: Sequence[AckedItem], skipped: int) -> list[AckedItem]:
    """Tell how many messages a conflating group has passed without getting them."""
    return [
        msgspec.structs.replace(answer, conflated=max(0, skipped))
        if answer.success and not answer.noop
        else answer
        for answer in answers
    ]


def by_address(acks: Iterable[tuple[AckItem, str]]) -> list[tuple[Address, list[int]]]:
    """Places of a call's (item, group) pairs by address, in order of first appearance."""
    addresses: dict[Address, list[int]] = {}
    for place, (item, group) in enumerate(acks):
        addresses.setdefault((item.partition_id, group, item.lease_id), []).append(place)
    return list(addresses.items())


def contacted_cursor(state: State, partition_id: str, group: str) -> Cursor | None:
    """The cursor of a group in a partition that it has claimed from."""
    partition = state.partition_by_id(partition_id)
    if partition is None:
        return None
    known = state.queues[partition.queue].groups.get(group)
    cursor = known.cursors.get(partition.number) if known is not None else None
    return cursor if cursor is not None and cursor.is_contacted else None


def settle_on(
    state: State,
    cursor: Cursor,
    position: Position,
    items: Sequence[AckItem],
    recalls: bool = True,
) -> Settlement:
    """Judge items against a position of this cursor; changes nothing."""
    options, partition = cursor.group.queue.options, cursor.partition
    terms = Terms(
        state.now_us,
        partition.end,
        options.retry_limit,
        options.dead_letters,
        cursor.group.conflates is True,
        recalls,
    )
    return settle(position, items, partition.resolve, terms)


def carry_out(
    state: State, mint: Mint, cursor: Cursor, lease_id: str, settlement: Settlement
) -> None:
    """File the dead letters and move the cursor."""
    if (
        lease_id
        and cursor.position.lease is not None
        and cursor.position.lease.lease_id == lease_id
    ):
        claim = state.claims.by_lease(lease_id)
        assert claim is not None, f"lease {lease_id} in a position without its claim"
        if not claim.is_received:
            claim.is_received = True
            state.claims.note(claim)
    for offset, error, retries in settlement.dead:
        state.file_dead_letter(cursor, offset, error, retries, mint)
    if settlement.position is not cursor.position:
        state.move(cursor, settlement.position)
