"""What a plan may say: kinds that exist, with targets, options and events that they can have."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from .events import UnknownEventError, fault_of
from .fault import Fault
from .options import check_options
from .registry import NEMESES, NONE, NemesisSpec, UnknownNemesisError
from .selectors import names_in, takes_many


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
        try:
            check_target(spec, fault.target)
        except ValueError as error:
            raise ValueError(f"fault {fault.id}: {error}") from None
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
        try:
            check_names_in(fault.target, nodes)
        except ValueError as error:
            raise ValueError(f"fault {fault.id}: {error}") from None


def check_names_in(target: str, nodes: Sequence[str]) -> None:
    """Refuse a target that names a node which the run does not have, or one twice: ValueError."""
    named = names_in(target)
    for name in named:
        if name not in nodes:
            raise ValueError(f"target {target!r} names {name!r}; choose from: {', '.join(nodes)}")
    if len(set(named)) < len(named):
        raise ValueError(f"target {target!r} names a node twice; name each one once")


def check_target(spec: NemesisSpec, target: str) -> None:
    """Refuse a target that a nemesis cannot have, as ValueError."""
    known = tuple(dict.fromkeys((spec.target, *spec.targets, *spec.drawn)))
    if target in known:
        return
    named = names_in(target)
    of_many = any(takes_many(selector) for selector in known)
    if spec.named and named and all(named) and (of_many or len(named) == 1):
        return
    if not spec.targets and not spec.drawn and not spec.named:
        raise ValueError(f"{spec.name} hits {spec.target!r}, not {target!r}")
    by_name = (
        ", or nodes by name, such as n1+n3" if of_many else ", or one node by name, such as n1"
    )
    raise ValueError(
        f"target {target!r} is not one of {spec.name}; "
        f"choose from: {', '.join(known)}{by_name if spec.named else ''}"
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
