"""Plan files: JSON that people read, edit and run again.

An object with a seed, a time limit, `faults` and combinators in `draw`; or a list of faults; or the
`scenario.json` of a run, of which its plan is taken.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from ..histories.ops import Json
from .combinators import SHAPES, Combinator, Expansion, Node
from .draws import healed_s
from .events import OF_FAULTS, UnknownEventError, fault_of
from .fault import Fault
from .fields import shown, wrong_field
from .packages import PACKAGES
from .plan_check import check_plan
from .registry import NEMESES, NONE
from .settings import DEFAULTS, NemesisSettings

VERSION: Final = 1
_LIMIT_S_MAX: Final = 86_400


class PlanError(ValueError):
    """A plan file that cannot be used; one line that names the place, the value and the choices."""


class PlanFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a plan file holds.

    Attributes:
        v: Format version.
        seed: Expands the combinators, and is the run's unless that has one of its own; None is
            drawn.
        time_limit_s: The run's, unless that has one of its own; 0 says nothing.
        nemeses: What the plan was drawn from, for people.
        faults: Faults.
        draw: Combinators; see `combinators`.
    """

    v: int = VERSION
    seed: Annotated[int, Meta(ge=0, le=(1 << 63) - 1)] | None = None
    time_limit_s: Annotated[float, Meta(ge=0, le=_LIMIT_S_MAX)] = 0.0
    nemeses: list[str] = []
    faults: list[Json] = []
    draw: list[Json] = []


def write_plan_file(
    plan: Sequence[Fault], seed: int, time_limit_s: float, nemeses: Sequence[str]
) -> str:
    """Return the text of a plan file, indented, one fault a line."""
    head = {"v": VERSION, "seed": seed, "time_limit_s": time_limit_s, "nemeses": list(nemeses)}
    lines = [f'  "{name}": {msgspec.json.encode(value).decode()},' for name, value in head.items()]
    faults = [f"    {msgspec.json.encode(fault.plain()).decode()}" for fault in plan]
    inner = "[\n" + ",\n".join(faults) + "\n  ]" if faults else "[]"
    return "{\n" + "\n".join(lines) + f'\n  "faults": {inner}\n}}\n'


def read_plan_file(data: bytes) -> PlanFile:
    """Read the outer part of a plan file.

    Raises:
        PlanError: It is no JSON, a field is wrong, or it neither holds faults nor says that there
            are none.
    """
    try:
        raw: Json = msgspec.json.decode(data)
    except msgspec.MsgspecError as error:
        raise PlanError(f"not JSON: {error}") from None
    if raw in ([], {}):
        raise PlanError(
            f"{'[]' if raw == [] else '{}'} holds no fault; a plan has some in faults or draw, "
            'or says {"faults": []}'
        )
    if isinstance(raw, list):
        raw = {"faults": raw}
    if not isinstance(raw, dict):
        raise PlanError("not a plan: an object with faults or draw, or a list of faults")
    if "workload" in raw and "plan" in raw:
        raw = _of_scenario(raw)
    wrong = wrong_field(raw, PlanFile)
    if wrong is not None:
        raise PlanError(wrong)
    plan = msgspec.convert(raw, PlanFile)
    if plan.v != VERSION:
        raise PlanError(f"v {plan.v} is not allowed; it takes {VERSION}")
    return plan


def _of_scenario(raw: Mapping[str, Json]) -> dict[str, Json]:
    settings = raw.get("settings")
    limit = settings.get("time_limit_s", 0) if isinstance(settings, dict) else 0
    return {"seed": raw.get("seed"), "time_limit_s": limit, "faults": raw["plan"]}


def expand_plan(
    plan: PlanFile,
    seed: int,
    time_limit_s: float,
    settings: NemesisSettings = DEFAULTS,
    packages: dict[str, tuple[str, ...]] | None = None,
) -> tuple[Fault, ...]:
    """All faults of a plan file, in order of `at_s`; the same seed gives the same ones.

    What combinators say beyond the time limit is left out; a fault that stands there by itself
    and would not heal in time is an error.

    Args:
        plan: From `read_plan_file`.
        seed: Of the combinators.
        time_limit_s: Of the run.
        settings: Durations of what is drawn.
        packages: The nemeses that each package stands for; all that belong to it if left out.

    Raises:
        PlanError: A fault or a combinator cannot be had; the line says where and why.
    """
    faults = [_read_fault(raw, f"faults[{number}]") for number, raw in enumerate(plan.faults)]
    known = PACKAGES if packages is None else packages
    expansion = Expansion(
        seed, time_limit_s, settings, known, lambda raw, place: _read_node(raw, place, known)
    )
    drawn: list[Fault] = []
    for number, raw in enumerate(plan.draw):
        place = f"draw[{number}]"
        drawn += expansion.expand(_read_node(raw, place, known), place, settings.first_s)
    whole = (*faults, *_numbered(drawn, {fault.id for fault in faults}))
    try:
        check_plan(whole)
    except ValueError as error:
        raise PlanError(str(error)) from None
    if plan.draw and not whole:
        raise PlanError(f"draw gives no fault that heals within {time_limit_s:g} s")
    for fault in faults:
        if not fault.after and healed_s(fault) > time_limit_s:
            raise PlanError(
                f"fault {fault.id}: at_s {fault.at_s:g} with duration_s {fault.duration_s:g} heals "
                f"at {healed_s(fault):g} s, with {NEMESES[fault.kind].healing_s:g} s to heal; "
                f"the time limit is {time_limit_s:g} s"
            )
    return tuple(sorted(whole, key=lambda fault: (fault.at_s, fault.id)))


def _read_fault(raw: Json, place: str) -> Fault:
    if not isinstance(raw, dict):
        raise PlanError(f"{place} {shown(raw)} is no object; a fault has id, kind, target, at_s")
    named = raw.get("id")
    where = f"fault {named}" if isinstance(named, str) and named else place
    wrong = wrong_field(raw, Fault)
    if wrong is not None:
        raise PlanError(f"{where}: {wrong}")
    try:
        return msgspec.convert(raw, Fault)
    except msgspec.ValidationError as error:
        raise PlanError(str(error)) from None


def _read_node(raw: Json, place: str, packages: Mapping[str, Sequence[str]]) -> Node:
    if isinstance(raw, str):
        _check_kind(raw, place, packages)
        return raw
    if not isinstance(raw, dict) or raw.get("do") not in SHAPES:
        told = shown(raw.get("do") if isinstance(raw, dict) else raw)
        raise PlanError(f"{place}: do {told} is not allowed; choose from: {', '.join(SHAPES)}")
    fields = {name: value for name, value in raw.items() if name != "do"}
    shape = SHAPES[str(raw["do"])]
    wrong = wrong_field(fields, shape)
    if wrong is not None:
        raise PlanError(f"{place}: {wrong}")
    node: Combinator = msgspec.convert(fields, shape)
    _check_inside(node, raw, place, packages)
    return node


def _check_inside(
    node: Combinator, raw: Mapping[str, Json], place: str, packages: Mapping[str, Sequence[str]]
) -> None:
    """Refuse an empty `of`, a kind that nobody knows, and events that a node cannot wait for."""
    kind, of = raw.get("kind"), raw.get("of")
    if isinstance(kind, str):
        _check_kind(kind, place, packages)
    if of == []:
        raise PlanError(f"{place}: of [] is not allowed; it takes at least one node")
    event = raw.get("event", raw.get("after"))
    if isinstance(event, str) and event:
        try:
            fault_of(event)
        except UnknownEventError as error:
            raise PlanError(f"{place}: event {error}") from None
    if node.word == "after" and isinstance(of, list) and _waits(of):
        raise PlanError(f"{place}: an after inside an after; a fault waits for one event alone")


def _waits(of: Sequence[Json]) -> bool:
    for raw in of:
        if isinstance(raw, dict):
            inner = raw.get("of")
            if (
                raw.get("do") == "after"
                or raw.get("after")
                or _waits(inner if isinstance(inner, list) else [])
            ):
                return True
    return False


def _check_kind(kind: str, place: str, packages: Mapping[str, Sequence[str]]) -> None:
    if kind in NEMESES and kind != NONE:
        return
    if packages.get(kind):
        return
    if kind in packages:
        raise PlanError(f"{place}: package {kind!r} has no nemesis that fits this run")
    choices = ", ".join([name for name in NEMESES if name != NONE] + sorted(packages))
    raise PlanError(f"{place}: unknown kind {kind!r}; choose from: {choices}")


def _numbered(drawn: Sequence[Fault], taken: set[str]) -> list[Fault]:
    """Give each drawn fault an id: its kind and a number, in order of time."""
    numbers: dict[str, int] = {}
    named: list[Fault] = []
    for fault in sorted(drawn, key=lambda one: (one.at_s, one.id)):
        number = numbers.get(fault.kind, 0) + 1
        while f"{fault.kind}-{number}" in taken:
            number += 1
        numbers[fault.kind] = number
        named.append(msgspec.structs.replace(fault, id=f"{fault.kind}-{number}"))
    return named


def needs_events(plan: Sequence[Fault]) -> bool:
    """Whether a fault of it waits for an event of the run."""
    return any(fault.after and fault.after.partition(":")[0] not in OF_FAULTS for fault in plan)
