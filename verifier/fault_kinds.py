"""What the faults of a plan take away, told to the contract that judges the run."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from ..checkers.contract import Contract, FaultKinds
from ..nemesis.fault import Fault
from ..nemesis.registry import NEMESES


def with_fault_kinds(contract: Contract, plan: Iterable[Fault]) -> Contract:
    """Return the contract with those kinds of the plan that it does not name yet."""
    kinds = sorted({fault.kind for fault in plan})
    named: dict[str, tuple[str, ...]] = {}
    for group in FaultKinds.__struct_fields__:
        known: tuple[str, ...] = getattr(contract.faults, group)
        new = [kind for kind in kinds if group in NEMESES[kind].takes and kind not in known]
        named[group] = (*known, *new)
    return msgspec.structs.replace(contract, faults=FaultKinds(**named))
