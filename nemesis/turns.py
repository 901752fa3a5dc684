"""Turns between faults that hit every node and faults that hit one.

A fault on all nodes waits for a moment in which no other fault holds any of them. Where faults of
several kinds follow each other closely there is none, so the plan makes one: whatever hits all
nodes has them to itself, and time to recover on either side.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from .fault import Fault
from .selectors import is_of_many, is_of_nodes

RECOVERY_S: Final = 3.0
"""Between a fault on all nodes and its neighbours, so that the one before has recovered."""

HealedS = Callable[[Fault], float]


def need_turns(faults: Sequence[Fault]) -> bool:
    """Whether some faults hit all nodes, and others one of them."""
    targets = {fault.target for fault in faults if is_of_nodes(fault.target)}
    return len({is_of_many(target) for target in targets}) > 1


def take_turns(faults: Sequence[Fault], healed_s: HealedS) -> list[Fault]:
    """Put faults off until it is their turn, first come, first served.

    Args:
        faults: In order of `at_s`.
        healed_s: When a fault is healed, healing included.

    Returns:
        The same faults in the same order, some of them later; in milliseconds, like all plans.
    """
    moved: list[Fault] = []
    free_for_one_s = free_for_all_s = 0.0
    kinds_free_s: dict[str, float] = {}
    begun_s = 0.0
    for fault in faults:
        if not is_of_nodes(fault.target):
            moved.append(fault)
            continue
        many = is_of_many(fault.target)
        free_s = free_for_all_s if many else free_for_one_s
        # Nobody overtakes: one that came later must not keep one that waits from its turn.
        at_s = max(fault.at_s, free_s, begun_s, kinds_free_s.get(fault.kind, 0.0))
        put_off = msgspec.structs.replace(fault, at_s=round(at_s, 3))
        moved.append(put_off)
        begun_s = put_off.at_s
        kinds_free_s[fault.kind] = healed_s(put_off)
        recovered_s = healed_s(put_off) + RECOVERY_S
        free_for_all_s = max(free_for_all_s, recovered_s)
        if many:
            free_for_one_s = max(free_for_one_s, recovered_s)
    return moved
