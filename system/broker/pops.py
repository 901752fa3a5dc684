"""Pop, lease extension and take-back."""

from __future__ import annotations

from typing import Final

import msgspec

from .claims import Claim, live_cursors
from .commands import QUEUE_MODE, Extend, Pop, TakeBack
from .conflation import decide, newest_visible, policy
from .cursors import Cursor, Group, first_wanted
from .lease import (
    Lease,
    claimed,
    delivered,
    expiry_us,
    extended,
    redelivered_messages_max,
    taken_back,
)
from .mint import Mint
from .queue import Queue
from .readiness import READY
from .replies import ClaimedRun, ExtendReply, PopReply, TakeBackReply
from .state import State

AUTOPILOT_WIDTH_MAX: Final = 64
AUTOPILOT_BATCH_MIN: Final = 100
AUTOPILOT_BATCH_MAX: Final = 1000
AUTOPILOT_WAIT_MS: Final = 100
"""What a client that polls without waiting is told to sleep."""


def must_enter_log(state: State, command: Pop, now_us: int) -> bool:
    """Whether applying the pop at `now_us` would claim, repeat, or record a first contact."""
    if state.claims.repeated(command.request_id, now_us) is not None:
        return True
    if not command.queue:
        return any(
            must_enter_log(state, msgspec.structs.replace(command, queue=queue.name), now_us)
            for queue in labelled_queues(state, command)
        )
    queue = state.queues.get(command.queue)
    if queue is None:
        return command.partition is None
    group = queue.groups.get(command.group)
    if command.partition is not None:
        partition = queue.partitions.get(command.partition)
        if partition is None:
            return False
        cursor = group.cursors.get(partition.number) if group is not None else None
        return cursor is None or state.readiness.status(cursor, now_us) == READY
    if group is None or not group.is_registered or group.ready:
        return True
    return any(cursor.group is group for cursor in state.readiness.overdue(now_us))


def pop(state: State, mint: Mint, command: Pop) -> PopReply:
    """Claim up to the budget, in the rotating order of the ready partitions.

    Cost: the partitions and messages claimed; a group's first pop adds the queue's partitions.
    """
    repeated = state.claims.repeated(command.request_id, state.now_us)
    if repeated is not None:
        repeated.answers[command.asking] = command.trial
        state.claims.note(repeated)
        return _same_claim(state, command, repeated)
    if not command.queue:
        groups = [
            _registered_group(state, queue, command) for queue in labelled_queues(state, command)
        ]
        return _claim(state, mint, command, groups)
    if command.partition is None:
        group = _registered_group(state, state.queue_for(command.queue, mint), command)
        return _claim(state, mint, command, [group])
    cursor = _pinned_cursor(state, command)
    if cursor is None or not cursor.ticket:
        return nothing(state, command)
    return _claim(state, mint, command, [cursor.group], cursor)


def nothing(state: State, command: Pop) -> PopReply:
    """The answer of a pop that finds nothing; changes nothing. Cost: the queues with its labels."""
    if command.queue:
        queue = state.queues.get(command.queue)
        queues = [] if queue is None else [queue]
    else:
        queues = labelled_queues(state, command)
    groups = [group for queue in queues if (group := queue.groups.get(command.group)) is not None]
    delivery = policy(command, groups)
    return PopReply(command.queue, command.group, "", (), None, *delivery)


def extend(state: State, command: Extend) -> ExtendReply:
    """Prolong every live lease with this id; a dead or unknown one renews nothing."""
    claim = state.claims.by_lease(command.lease_id)
    cursors = live_cursors(claim, state.now_us) if claim is not None else []
    if claim is None or not cursors:
        return ExtendReply(command.lease_id, 0, None)
    claim.is_received = True
    state.claims.note(claim)
    deadlines: list[int] = []
    for cursor in cursors:
        position = extended(cursor.position, state.now_us, command.seconds)
        assert position.lease is not None
        deadlines.append(position.lease.expires_us)
        state.move(cursor, position)
    return ExtendReply(command.lease_id, len(cursors), min(deadlines))


def take_back(state: State, command: TakeBack) -> TakeBackReply:
    """Undo a claim once none of its answers can have arrived."""
    claim = state.claims.by_lease(command.lease_id)
    if claim is None or claim.is_received:
        return TakeBackReply(False)
    if claim.answers.get(command.asking) != command.trial:
        # Of an earlier trial: the later one is on its way to the client.
        return TakeBackReply(False)
    del claim.answers[command.asking]
    state.claims.note(claim)
    if claim.answers:
        return TakeBackReply(False)
    for cursor, before in list(claim.held.values()):
        state.move(cursor, taken_back(cursor.position, before))
    return TakeBackReply(True)


def labelled_queues(state: State, command: Pop) -> list[Queue]:
    """The queues that a pop by labels looks at, in order of creation."""
    return [
        queue
        for queue in state.queues.values()
        if command.namespace in (None, queue.namespace) and command.task in (None, queue.task)
    ]


def _registered_group(state: State, queue: Queue, command: Pop) -> Group:
    group = queue.groups.get(command.group) or state.add_group(queue, command.group)
    decide(state, group, command)
    if not group.is_registered:
        state.register(group, _since_us(command, state.now_us))
    return group


def _pinned_cursor(state: State, command: Pop) -> Cursor | None:
    queue = state.queues.get(command.queue)
    partition = queue.partitions.get(command.partition or "") if queue is not None else None
    if queue is None or partition is None:
        return None
    group = queue.groups.get(command.group) or state.add_group(queue, command.group)
    decide(state, group, command)
    cursor = group.cursors.get(partition.number)
    return cursor or state.add_cursor(group, partition, _since_us(command, state.now_us))


def _since_us(command: Pop, now_us: int) -> int:
    if command.group == QUEUE_MODE or command.subscribe == "all":
        return 0
    return command.subscribe_from_us if command.subscribe == "from" else now_us


def _claim(
    state: State, mint: Mint, command: Pop, groups: list[Group], pinned: Cursor | None = None
) -> PopReply:
    available = sum(len(group.ready) for group in groups)
    if not available:
        return nothing(state, command)
    if pinned is not None:
        available = 1
    budget, width, autopilot = _sizes(command, available)
    lease_id = "" if command.auto_ack else mint.new_id()
    state.claims_made += 1
    answers = {command.asking: command.trial}
    claim = Claim(state.claims_made, lease_id, command.request_id, answers)
    if lease_id:
        state.claims.add(claim)
    runs: list[ClaimedRun] = []
    for group in groups:
        expires_us = expiry_us(state.now_us, command.lease_s or group.queue.options.lease_s)
        ready = len(group.ready)
        while budget > 0 and ready > 0 and len(runs) < min(width, available):
            cursor = pinned or group.ready.pop_first()
            if cursor.ticket:
                group.ready.remove(cursor)
            run, count = _take(state, cursor, claim, budget, expires_us)
            budget -= count
            ready -= 1
            runs.append(run)
    delivery = policy(command, groups)
    return PopReply(command.queue, command.group, claim.lease_id, tuple(runs), autopilot, *delivery)


def _take(
    state: State, cursor: Cursor, claim: Claim, budget: int, expires_us: int
) -> tuple[ClaimedRun, int]:
    if cursor.group.conflates:
        return _take_newest(state, cursor, claim, expires_us), 1
    partition, before = cursor.partition, cursor.position
    first = first_wanted(cursor)
    delay_us = cursor.group.queue.options.delay_us
    if delay_us:
        budget = min(budget, partition.visible_end(state.now_us, delay_us) - first)
    budget = min(budget, redelivered_messages_max(before, first))
    end = min(first + budget, partition.end)
    assert end > first, (
        f"partition {partition.partition_id} was ready at {first} with nothing there"
    )
    last = end - 1
    # Before the move: what an automatic ack completes may leave the log at once.
    messages = state.delivered(partition, first, end)
    cursor.is_contacted = True
    if claim.lease_id:
        claim.held[cursor.number] = (cursor, before)
        state.move(cursor, claimed(before, Lease(claim.lease_id, first, last, expires_us)))
        attempt = cursor.position.attempt
    else:
        state.move(cursor, delivered(before, last))
        attempt = 1
    run = ClaimedRun(partition.name, partition.partition_id, attempt, messages, partition.queue)
    return run, end - first


def _take_newest(state: State, cursor: Cursor, claim: Claim, expires_us: int) -> ClaimedRun:
    partition, before = cursor.partition, cursor.position
    newest = newest_visible(state, cursor)
    lease = Lease(claim.lease_id, first_wanted(cursor), newest, expires_us)
    messages = state.delivered(partition, newest, newest + 1)
    cursor.is_contacted = True
    if claim.lease_id:
        claim.held[cursor.number] = (cursor, before)
        state.move(cursor, claimed(before, lease))
        attempt = cursor.position.attempt
    else:
        state.move(cursor, delivered(before, newest))
        attempt = 1
    return ClaimedRun(partition.name, partition.partition_id, attempt, messages, partition.queue)


def _same_claim(state: State, command: Pop, claim: Claim) -> PopReply:
    """Answer a repeated pop, and let its lease begin anew: its holder counts from this request."""
    runs: list[ClaimedRun] = []
    for cursor in live_cursors(claim, state.now_us):
        lease_s = command.lease_s or cursor.group.queue.options.lease_s
        state.move(cursor, extended(cursor.position, state.now_us, lease_s))
        position, partition = cursor.position, cursor.partition
        assert position.lease is not None
        first = max(position.committed + 1, position.lease.first)
        if cursor.group.conflates:
            first = position.lease.last
        messages = state.delivered(partition, first, position.lease.last + 1)
        runs.append(
            ClaimedRun(
                partition.name,
                partition.partition_id,
                position.attempt,
                messages,
                partition.queue,
            )
        )
    groups = [cursor.group for cursor, _ in claim.held.values()]
    delivery = policy(command, groups)
    return PopReply(command.queue, command.group, claim.lease_id, tuple(runs), None, *delivery)


def _sizes(command: Pop, available: int) -> tuple[int, int, tuple[int, int, int] | None]:
    """Message budget, number of partitions, and what autopilot has chosen."""
    budget = command.batch
    width = command.partitions if command.partitions > 0 else available
    if not command.autopilot:
        return budget, width, None
    if command.autopilot != "batch":
        width = min(max(available // max(1, command.waiting), 1), AUTOPILOT_WIDTH_MAX)
    if command.autopilot != "partitions":
        budget = min(max(width, 1) * AUTOPILOT_BATCH_MIN, AUTOPILOT_BATCH_MAX)
    return budget, width, (width, budget, AUTOPILOT_WAIT_MS)
