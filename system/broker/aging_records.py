"""Retention by time: the leader's proposal, and what came of it."""

from __future__ import annotations

from typing import Final

import msgspec

RETAIN_MESSAGES_MAX: Final = 10_000
"""Messages and dead letters that one `Retain` lets go."""


class Retain(msgspec.Struct, array_like=True, frozen=True, tag="retain"):
    """Judge these partitions and queues by the batch's stamp, and let go of what is too old.

    The leader names where it has seen something; what is due is decided where it is applied.

    Attributes:
        partitions: Partition ids.
        queues: Names of queues whose dead letters are judged.
        limit: At most so many messages and dead letters go in this step.
    """

    partitions: tuple[str, ...]
    queues: tuple[str, ...] = ()
    limit: int = RETAIN_MESSAGES_MAX


class AgedOut(msgspec.Struct, frozen=True):
    """What one step let go of in one queue.

    Attributes:
        queue: Its name.
        retained: Messages older than `retentionSeconds`.
        completed: Messages that every group had passed, older than `completedRetentionSeconds`.
        evicted: Messages older than `maxWaitTimeSeconds`.
        dead: Dead letters older than `retentionSeconds`.
        partitions: Empty partitions that nobody had used for a month.
    """

    queue: str
    retained: int = 0
    completed: int = 0
    evicted: int = 0
    dead: int = 0
    partitions: int = 0


class RetainReply(msgspec.Struct, frozen=True):
    """By queue, in the order of their first appearance; queues that kept everything are absent."""

    queues: tuple[AgedOut, ...]
