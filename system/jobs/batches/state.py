"""What is known of a batch, and how the end of a member changes it. Pure.

One row holds the counts and which callbacks were pushed; one row for each member that has ended
holds its mark. Both change in the transaction that settles the member's message, under the
versions that were read: so a member counts once, and a callback is pushed once.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final, Literal

import msgspec

from ...client.keyvalue import KvAnswer
from ..links import Link

NAMESPACE: Final = "atleastonce-batches"
KEEP_S: Final = 30 * 86_400
"""How long a batch is known after its last change, seconds."""
SETTLED_KEEP_S: Final = 3600
"""How long the settling of one message can be looked up; longer than any lease."""

Occasion = Literal["then", "catch", "finally"]


class Mark(StrEnum):
    """How a member ended."""

    DONE = "done"
    FAILED = "failed"
    SKIPPED = "skipped"


class BatchState(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One batch.

    Attributes:
        id: The batch.
        name: What it is called, for people.
        total: Its members.
        pending: Members that have neither succeeded nor been skipped.
        failed: Members that were given up and have not succeeded since.
        skipped: Members that ended unrun, because the batch was cancelled.
        allow_failures: Whether a failed member leaves the batch uncancelled.
        cancelled: Whether it was cancelled, by a failure or by a call.
        callbacks: What is called, by occasion.
        called: The occasions that have come.
        created_at: Wall clock, seconds.
        keep_s: How long it is known after its last change, seconds.
    """

    v: Literal[1] = 1
    id: str
    total: int
    pending: int
    created_at: float
    name: str = ""
    failed: int = 0
    skipped: int = 0
    allow_failures: bool = False
    cancelled: bool = False
    callbacks: dict[Occasion, Link] = {}
    called: tuple[Occasion, ...] = ()
    keep_s: int = KEEP_S

    @property
    def is_settled(self) -> bool:
        """Whether every member has ended: what is pending has failed."""
        return self.pending == self.failed

    @property
    def progress(self) -> int:
        """Members that have succeeded or were skipped, percent, rounded down."""
        return (self.total - self.pending) * 100 // self.total

    def facts(self) -> dict[str, object]:
        """What a callback is called with."""
        return {
            "batch": self.id,
            "name": self.name,
            "total": self.total,
            "pending": self.pending,
            "failed": self.failed,
            "skipped": self.skipped,
            "cancelled": self.cancelled,
        }


def count(
    state: BatchState, before: Mark | None, after: Mark
) -> tuple[BatchState, tuple[Occasion, ...]]:
    """Count how a member ended.

    Args:
        state: The batch.
        before: How it had ended before; None when it had not.
        after: How it ends now.

    Returns:
        The batch afterwards, the same object when nothing changes; and the occasions that come.
    """
    if before in (Mark.DONE, Mark.SKIPPED) or before is after:
        return state, ()
    pending, failed, skipped = state.pending, state.failed, state.skipped
    occasions: list[Occasion] = []
    cancelled = state.cancelled
    if after is Mark.FAILED:
        failed += 1
        cancelled = cancelled or not state.allow_failures
        occasions.append("catch")
    else:
        pending -= 1
        failed -= before is Mark.FAILED
        skipped += after is Mark.SKIPPED
    assert 0 <= failed <= pending, f"batch {state.id}: {failed} failed of {pending} pending"
    if pending == 0 and skipped == 0:
        occasions.append("then")
    if pending == failed:
        occasions.append("finally")
    new = tuple(each for each in occasions if each not in state.called)
    counted = msgspec.structs.replace(
        state,
        pending=pending,
        failed=failed,
        skipped=skipped,
        cancelled=cancelled,
        called=(*state.called, *new),
    )
    return counted, new


_DECODER: Final = msgspec.json.Decoder(BatchState)
_MARK_DECODER: Final = msgspec.json.Decoder(Mark)


def read_state(answer: KvAnswer) -> BatchState | None:
    """The batch in a row; None when there is none."""
    return _DECODER.decode(answer.value) if answer.found else None


def read_mark(answer: KvAnswer) -> Mark | None:
    """The mark in a row; None when the member has not ended."""
    return _MARK_DECODER.decode(answer.value) if answer.found else None


def member_key(batch_id: str, job_id: str) -> str:
    """Key of a member's mark."""
    return f"{batch_id}/member/{job_id}"


def settled_key(batch_id: str, message: str) -> str:
    """Key that proves that a message of a member was settled."""
    return f"{batch_id}/settled/{message}"


def get(key: str) -> dict[str, object]:
    """The operation that reads a row."""
    return {"op": "get", "ns": NAMESPACE, "key": key}


def put(key: str, value: object, version: int, keep_s: int) -> dict[str, object]:
    """The operation that writes a row if its version is still this one, 0 for none."""
    return {
        "op": "put",
        "ns": NAMESPACE,
        "key": key,
        "value": value,
        "ttlSeconds": keep_s,
        "expect": version,
        "required": True,
    }


def unsettled(batch_id: str, message: str) -> dict[str, object]:
    """The operation that refuses a transaction once a message was settled."""
    key = settled_key(batch_id, message)
    return {"op": "check", "ns": NAMESPACE, "key": key, "expect": 0, "required": True}
