"""The rule `claim-left-behind`: every claim that a message's attempt counts was somebody's.

A pop that ended without deliveries has claimed nothing, also where its client had hung up: the
broker takes such a claim back, and its attempt with it. So of a message that arrives as attempt n,
n - 1 other pops can have had it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from ..histories.queue_ops import Dequeue
from .broker_evidence import OpFinding
from .queue_facts import Pop, QueueFacts, Taken
from .windows import NS, Windows

_BEFORE_NS: Final = NS
"""A fault is seen in effect a little after it is."""


def judge_left_behind(facts: QueueFacts, windows: Windows) -> Iterator[OpFinding]:
    """Judge `claim-left-behind`; of a run without faults it leaves nothing unexplained."""
    for id_, taken in facts.taken.items():
        for one in taken:
            claims = one.delivery.attempt - 1
            if claims > 0 and claims > _others(one, taken, facts, windows, claims):
                text = (
                    f"message {id_} of partition {one.delivery.partition} arrived as attempt "
                    f"{one.delivery.attempt}, and fewer than {claims} other pops can have had it"
                )
                yield OpFinding("claim-left-behind", text, one.pop.op.ops, (id_,))
                break


def _others(
    one: Taken, taken: list[Taken], facts: QueueFacts, windows: Windows, wanted: int
) -> int:
    """Count, up to `wanted`, claims of a message that may have come before one of its deliveries.

    A pop that was open for longer than its lease may have claimed more than once: the node asked
    again for it, at another leader.
    """
    until_ns = one.pop.popped_ns
    found = _times(one.pop.asked, one.pop.invoke_ns, until_ns) - 1
    had = {id(other.pop) for other in taken}
    found += sum(
        _times(other.pop.asked, other.pop.invoke_ns, other.pop.popped_ns)
        for other in taken
        if other is not one and other.pop.invoke_ns < until_ns
    )
    partition = one.delivery.partition
    for lost in facts.unanswered:
        if found >= wanted:
            return found
        if lost.invoke_ns < until_ns and lost.asked.partition in (None, partition):
            end_ns = until_ns if lost.end_ns is None else lost.end_ns
            found += _times(lost.asked, lost.invoke_ns, end_ns)
    for pop in facts.pops:
        if found >= wanted or pop.invoke_ns >= until_ns:
            return found
        if id(pop) not in had and pop.asked.partition in (None, partition) and _met(pop, windows):
            found += _times(pop.asked, pop.invoke_ns, pop.popped_ns)
    return found


def _times(asked: Dequeue, from_ns: int, until_ns: int) -> int:
    return 1 + (until_ns - from_ns) // (asked.lease_s * NS)


def _met(pop: Pop, windows: Windows) -> bool:
    """Whether a fault may have kept the broker from taking a claim of this pop back."""
    return any(
        from_ns - _BEFORE_NS <= pop.popped_ns and pop.invoke_ns <= until_ns
        for from_ns, until_ns in windows.open
    )
