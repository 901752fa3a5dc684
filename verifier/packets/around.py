"""The times that a fault or an operation of a run is about."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from ...histories.faults import read_faults
from ..errors import UsageError
from ..store import RunPaths

NS = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Moment:
    """Something that happened.

    Attributes:
        t_ns: CLOCK_MONOTONIC.
        text: What, in a few words.
    """

    t_ns: int
    text: str


@dataclass(frozen=True, slots=True)
class Spans:
    """Times with what happened in them.

    Attributes:
        moments: In order of time.
        window_ns: So much before and after each of them is meant.
    """

    moments: tuple[Moment, ...]
    window_ns: int

    def cover(self, t_ns: int) -> bool:
        """Whether a time is meant."""
        return any(abs(t_ns - moment.t_ns) <= self.window_ns for moment in self.moments)


class _Op(msgspec.Struct):
    index: int
    process: int | str
    type: str
    f: str
    time_ns: int


def spans_of(run: RunPaths, name: str, window_s: float) -> Spans:
    """Find a fault by its id, or an operation by an index of the history.

    Raises:
        UsageError: There is no such fault or operation.
    """
    events = read_faults(run.faults) if run.faults.exists() else []
    moments = [
        Moment(event.t_ns, f"{event.fault} of {event.target}: {event.event}")
        for event in events
        if event.fault == name
    ]
    if not moments:
        moments = _op_moments(run, name)
    if not moments:
        known = ", ".join(dict.fromkeys(event.fault for event in events)) or "this run had none"
        raise UsageError(
            f"--around {name!r} is no fault ({known}) and no index of an operation in {run.history}"
        )
    moments.sort(key=lambda moment: moment.t_ns)
    return Spans(tuple(moments), round(window_s * NS))


def _op_moments(run: RunPaths, name: str) -> list[Moment]:
    if not name.isdigit() or not run.history.exists():
        return []
    ops: list[_Op] = []
    with run.history.open("rb") as file:
        for line in file:
            try:
                ops.append(msgspec.json.decode(line, type=_Op))
            except msgspec.MsgspecError:
                continue  # The last line of a run that died may be torn.
    place = next((at for at, op in enumerate(ops) if op.index == int(name)), None)
    if place is None:
        return []
    pair = [ops[place]]
    steps = range(place + 1, len(ops)) if pair[0].type == "invoke" else range(place - 1, -1, -1)
    partner = next((ops[at] for at in steps if ops[at].process == pair[0].process), None)
    if partner is not None and (partner.type == "invoke") != (pair[0].type == "invoke"):
        pair.append(partner)
    return [Moment(op.time_ns, f"op {op.index}: {op.f} {op.type}") for op in pair]
