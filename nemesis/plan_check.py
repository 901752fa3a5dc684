"""What a plan may say: kinds that exist, with targets, options and events that they can have."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from .events import UnknownEventError, fault_of
from .fault import Fault
from .options import check_options
from .registry import NEMESES, NONE, NemesisSpec, UnknownNemesisError
from .selectors import is_of_nodes, names_in


def check_plan(plan: Sequence[Fault]) -> None:
    """Refuse faults of unknown kinds, with targets, options or events that they cannot have.

    Raises:
        ValueError: One line that names the fault, the field, its value and what is allowed.
    """
    seen: set[str] = set()
    for fault in plan:
        spec = NEMESES.get(fault.kind)
        if spec is None or spec.name == NONE:
            choices = ", ".join(name for name in NEMESES if name != NONE)
            raise UnknownNemesisError(
                f"fault {fault.id}: unknown kind {fault.kind!r}; choose from: {choices}"
            )
        _check_target(spec, fault)
        check_options(spec, fault)
        if fault.id in seen:
            raise ValueError(f"two faults have the id {fault.id!r}")
        seen.add(fault.id)
    for fault in plan:
        _check_event(fault, seen)
    _check_circles(plan)


def check_nodes(plan: Sequence[Fault], nodes: Sequence[str]) -> None:
    """Refuse faults on nodes that the run does not have, as ValueError."""
    for fault in plan:
        for name in names_in(fault.target):
            if name not in nodes:
                raise ValueError(
                    f"fault {fault.id}: target {fault.target!r} names {name!r}; "
                    f"choose from: {', '.join(nodes)}"
                )


def _check_target(spec: NemesisSpec, fault: Fault) -> None:
    if fault.target in (spec.target, *spec.targets, *spec.drawn):
        return
    if spec.named and is_of_nodes(fault.target) and all(names_in(fault.target) or [""]):
        return
    if not spec.targets and not spec.drawn and not spec.named:
        raise ValueError(
            f"fault {fault.id}: {fault.kind} hits {spec.target!r}, not {fault.target!r}"
        )
    choices = ", ".join(dict.fromkeys((spec.target, *spec.targets, *spec.drawn)))
    named = ", or nodes by name, such as n1+n3" if spec.named else ""
    raise ValueError(
        f"fault {fault.id}: target {fault.target!r} is not one of {fault.kind}; "
        f"choose from: {choices}{named}"
    )


def _check_event(fault: Fault, ids: Collection[str]) -> None:
    if not fault.after:
        return
    try:
        awaited = fault_of(fault.after)
    except UnknownEventError as error:
        raise UnknownEventError(f"fault {fault.id}: after {error}") from None
    if awaited is not None and (awaited not in ids or awaited == fault.id):
        others = ", ".join(sorted(set(ids) - {fault.id})) or "there is no other"
        raise ValueError(
            f"fault {fault.id}: after {fault.after!r} names no other fault; choose from: {others}"
        )


def _check_circles(plan: Sequence[Fault]) -> None:
    """Refuse faults that wait for each other, of which none could ever begin."""
    awaited = {fault.id: fault_of(fault.after) if fault.after else None for fault in plan}
    for fault in plan:
        chain = [fault.id]
        while (before := awaited[chain[-1]]) is not None and before not in chain:
            chain.append(before)
        if before == fault.id:
            raise ValueError(
                f"fault {fault.id}: after {fault.after!r} comes only after itself "
                f"({' after '.join((*chain, fault.id))}); choose another event"
            )
