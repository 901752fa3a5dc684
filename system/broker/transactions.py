"""Transactions: acks, pushes, KV, timers and positions of one entry, all or nothing.

Acks and pushes are judged first, against positions as they would become; KV operations come next
and undo themselves when a required one does not hold; only a bundle that nothing refuses is
carried out.
"""

from __future__ import annotations

import msgspec

from .acks import by_address, carry_out, contacted_cursor, settle_on
from .claims import live_cursors
from .commands import AckItem, Transaction, TransactionAck, TransactionPush
from .cursors import Cursor
from .kv import LostPreconditionError
from .kv import carry_out as carry_out_kv
from .lease import Position
from .mint import Mint
from .positions import missing_queue, set_position
from .pushes import Seen, store
from .replies import AckedItem, TransactionPushed, TransactionReply
from .settle import NO_CONSUMER, STALE_LEASE, Settlement
from .state import State

Step = tuple[Cursor, str, Settlement]


class _RefusedError(Exception):
    """Why the bundle rolls back."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(reason, detail)
        self.reason = reason
        self.detail = detail


def transact(state: State, mint: Mint, command: Transaction) -> TransactionReply:
    """Carry out a bundle or roll it back; a repeat of the request gets the first answer."""
    first = state.outcomes.first("transaction", command.request_id)
    if isinstance(first, TransactionReply):
        return first
    transaction_id = mint.new_id()
    try:
        steps, answers = _judge_acks(state, command)
        _judge_pushes(state, command)
        _judge_positions(state, command)
        kv = carry_out_kv(state.kv, command.kv, state.now_us, len(command.operations))
    except _RefusedError as refused:
        text = f"transaction rolled back: {refused.detail}"
        reply = TransactionReply(transaction_id, (), refused.reason, text)
    except LostPreconditionError as lost:
        text = f"transaction rolled back: kv precondition lost ({lost.precondition.reason})"
        reply = TransactionReply(transaction_id, (), "kv_precondition", text, lost.precondition)
    else:
        results = _carry_out(state, mint, command, steps, answers)
        timers = [state.timers.apply(operation, mint, state.now_us) for operation in command.timers]
        positions = [set_position(state, each) for each in command.positions]
        reply = TransactionReply(transaction_id, (*results, *kv, *timers, *positions))
    state.outcomes.remember("transaction", command.request_id, reply, state.now_us)
    return reply


def _fenced_acks(command: Transaction) -> list[tuple[AckItem, str]]:
    """The acks with the lease that fences each.

    That is its own, else the only lease that the whole bundle names, else none.
    """
    acks = [(op.item, op.group) for op in command.operations if isinstance(op, TransactionAck)]
    named = dict.fromkeys(command.required_leases)
    named.update(dict.fromkeys(item.lease_id for item, _ in acks if item.lease_id))
    if len(named) != 1:
        return acks
    (only,) = named
    return [
        (item if item.lease_id else msgspec.structs.replace(item, lease_id=only), group)
        for item, group in acks
    ]


def _judge_acks(state: State, command: Transaction) -> tuple[list[Step], list[AckedItem]]:
    for lease_id in command.required_leases:
        claim = state.claims.by_lease(lease_id)
        if claim is None or not live_cursors(claim, state.now_us):
            raise _RefusedError("rejected_ack", STALE_LEASE)
    acks = _fenced_acks(command)
    staged: dict[int, Position] = {}
    steps: list[Step] = []
    answers: dict[int, AckedItem] = {}
    for (partition_id, group, lease_id), places in by_address(acks):
        cursor = contacted_cursor(state, partition_id, group)
        if cursor is None:
            raise _RefusedError("rejected_ack", NO_CONSUMER)
        position = staged.get(cursor.number, cursor.position)
        own = [acks[place][0] for place in places]
        settlement = settle_on(state, cursor, position, own, recalls=False)
        for place, answer in zip(places, settlement.answers, strict=True):
            if not answer.success:
                raise _RefusedError("rejected_ack", answer.error)
            answers[place] = answer
        staged[cursor.number] = settlement.position
        steps.append((cursor, lease_id, settlement))
    return steps, [answers[place] for place in range(len(acks))]


def _judge_pushes(state: State, command: Transaction) -> None:
    for operation in command.operations:
        if not isinstance(operation, TransactionPush):
            continue
        item = operation.item
        queue = state.queues.get(item.queue)
        partition = queue.partitions.get(item.partition) if queue is not None else None
        if queue is None or partition is None or not item.transaction_id:
            continue
        if state.duplicate_of(queue, partition, item.transaction_id) is not None:
            raise _RefusedError("duplicate", f"duplicate transactionId {item.transaction_id}")


def _judge_positions(state: State, command: Transaction) -> None:
    pushes = [each for each in command.operations if isinstance(each, TransactionPush)]
    missing = missing_queue(state, command.positions, {each.item.queue for each in pushes})
    if missing is not None:
        raise _RefusedError("queue_not_found", f"queue {missing} does not exist")


def _carry_out(
    state: State, mint: Mint, command: Transaction, steps: list[Step], answers: list[AckedItem]
) -> list[AckedItem | TransactionPushed]:
    for cursor, lease_id, settlement in steps:
        carry_out(state, mint, cursor, lease_id, settlement)
    seen: Seen = {}
    acked = iter(answers)
    results: list[AckedItem | TransactionPushed] = []
    for operation in command.operations:
        if isinstance(operation, TransactionAck):
            results.append(next(acked))
            continue
        pushed = store(state, mint, operation.item, seen)
        results.append(
            TransactionPushed(
                pushed.transaction_id,
                pushed.message_id,
                pushed.queue,
                pushed.status == "duplicate",
            )
        )
    return results
