"""What pops that are on their way into the log will find: guesses, which promise nothing.

A leader asks these before it proposes a pop behind others, or behind a push that is to be applied
first. A wrong guess costs a pop that finds nothing and waits again, or one that waits a little
longer than it had to.
"""

from __future__ import annotations

from .commands import Pop, Push
from .pops import must_enter_log
from .readiness import READY
from .state import State


def finds_behind(state: State, command: Pop, ahead: int, now_us: int) -> bool:
    """Whether a pop must enter the log although others of its group are on their way.

    Args:
        state: As of the last apply.
        command: The pop.
        ahead: Pops of the same queue and group that are proposed and not applied.
        now_us: When it would be applied.
    """
    if not must_enter_log(state, command, now_us):
        return False
    if not ahead or command.partition is not None or not command.queue:
        return True
    if state.claims.repeated(command.request_id, now_us) is not None:
        return True
    queue = state.queues.get(command.queue)
    group = queue.groups.get(command.group) if queue is not None else None
    if group is None or not group.is_registered:
        return True
    ready = len(group.ready)
    if ready <= ahead:
        ready += sum(cursor.group is group for cursor in state.readiness.overdue(now_us))
    return ready > ahead


def partitions_made_ready(state: State, push: Push, command: Pop, now_us: int) -> list[str]:
    """Partitions that a push makes ready for a waiting pop, each once.

    None for a queue that holds messages back, and for pops of several queues.
    """
    queue = state.queues.get(command.queue)
    group = queue.groups.get(command.group) if queue is not None else None
    if queue is None or group is None or not group.is_registered:
        return []
    if queue.options.delay_us or queue.options.window_us:
        return []
    names = dict.fromkeys(item.partition for item in push.items if item.queue == queue.name)
    made: list[str] = []
    for name in names:
        if command.partition not in (None, name):
            continue
        partition = queue.partitions.get(name)
        cursor = group.cursors.get(partition.number) if partition is not None else None
        if cursor is not None:
            lease = cursor.position.lease
            is_leased = lease is not None and now_us < lease.expires_us
            if is_leased or state.readiness.status(cursor, now_us) == READY:
                continue
        made.append(name)
    return made
