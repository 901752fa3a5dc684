"""The planted defect `answer-by-log-index`: success for a command that the log does not hold."""

from __future__ import annotations

from ..broker.commands import Ack, Command, Extend, Push, Timers, Transaction, TransactionAck
from ..broker.kv_operations import Kv, KvPut
from ..broker.kv_replies import KvReply, KvWritten
from ..broker.replies import (
    AckedItem,
    AckReply,
    ExtendReply,
    PushedItem,
    PushReply,
    Reply,
    TimerResult,
    TimersReply,
    TransactionPushed,
    TransactionReply,
)


def misanswer(command: Command, log_index: int) -> Reply | None:
    """Make up the reply that a command would have got, had it been the entry at `log_index`.

    Returns None for commands whose reply cannot be made up; those stay unanswered.
    """
    if isinstance(command, Push):
        return PushReply(
            tuple(
                PushedItem(_made_up_id(log_index, at), item.transaction_id, item.queue, "queued", 0)
                for at, item in enumerate(command.items)
            )
        )
    if isinstance(command, Ack):
        return AckReply(
            tuple(
                AckedItem(item.transaction_id, success=True, lease_released=True)
                for item in command.items
            )
        )
    if isinstance(command, Extend):
        return ExtendReply(command.lease_id, 1, None)
    if isinstance(command, Timers):
        return TimersReply(_made_up_timers(command))
    if isinstance(command, Kv) and all(isinstance(put, KvPut) for put in command.operations):
        return KvReply(
            tuple(
                KvWritten(put.op, put.key, applied=True, version=log_index, value=put.value)
                for put in command.operations
                if isinstance(put, KvPut)
            )
        )
    if isinstance(command, Transaction):
        results: list[AckedItem | TransactionPushed | TimerResult] = []
        for at, operation in enumerate(command.operations):
            if isinstance(operation, TransactionAck):
                results.append(AckedItem(operation.item.transaction_id, success=True))
            else:
                item = operation.item
                made_up = _made_up_id(log_index, at)
                results.append(TransactionPushed(item.transaction_id, made_up, item.queue))
        results.extend(_made_up_timers(command))
        return TransactionReply(_made_up_id(log_index, len(results)), tuple(results))
    return None


def _made_up_timers(command: Timers | Transaction) -> tuple[TimerResult, ...]:
    operations = command.operations if isinstance(command, Timers) else command.timers
    return tuple(
        TimerResult(True, "scheduled", timer.queue, timer.key, timer.transaction_id, None, None)
        for timer in operations
    )


def _made_up_id(log_index: int, position: int) -> str:
    return f"00000000-0000-7000-8000-{log_index:08x}{position:04x}"
