"""Faults that a nemesis injected, as it saw them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import msgspec

from .lines import read_lines
from .ops import Json

FaultStage = Literal["opened", "effect", "healed", "recovered"]


class FaultEvent(msgspec.Struct, frozen=True, kw_only=True):
    """One line of `faults.jsonl`.

    Attributes:
        v: Format version.
        fault: Id of the fault; the same in all its events.
        kind: Name of the nemesis, such as `kill-leader`.
        target: What it hit, such as `n2`, `supervisor`, `worker 4711`.
        event: `opened` (about to act), `effect` (seen in effect), `healed` (undone), `recovered`
            (the target seen at work again).
        t_ns: CLOCK_MONOTONIC.
        wall_ns: Wall clock beside it.
        pid: The process that was hit.
        evidence: How the nemesis knows.
    """

    fault: str
    kind: str
    target: str
    event: FaultStage
    t_ns: int
    wall_ns: int
    pid: int | None = None
    evidence: dict[str, Json] = {}
    v: int = 1


@dataclass(frozen=True, slots=True)
class Fault:
    """All events of one fault; a time is None where the event was not seen (ns).

    `evidence` is what the nemesis told with each event.
    """

    id: str
    kind: str
    target: str
    pid: int | None
    opened_ns: int | None
    effect_ns: int | None
    healed_ns: int | None
    recovered_ns: int | None
    evidence: Mapping[FaultStage, Mapping[str, Json]] = field(default_factory=dict, compare=False)

    @property
    def bit(self) -> bool:
        """Whether the fault was seen in effect."""
        return self.effect_ns is not None


def read_faults(path: Path | str) -> list[FaultEvent]:
    """Read `faults.jsonl`; errors as `read_lines`."""
    return read_lines(path, FaultEvent)


def group_faults(events: Iterable[FaultEvent]) -> list[Fault]:
    """Gather events by fault, in order of appearance; the first event of each stage counts."""
    by_fault: dict[str, dict[FaultStage, FaultEvent]] = {}
    for event in events:
        by_fault.setdefault(event.fault, {}).setdefault(event.event, event)
    return [_fault(id_, stages) for id_, stages in by_fault.items()]


def _fault(id_: str, stages: dict[FaultStage, FaultEvent]) -> Fault:
    first = next(iter(stages.values()))

    def time_of(stage: FaultStage) -> int | None:
        return stages[stage].t_ns if stage in stages else None

    return Fault(
        id=id_,
        kind=first.kind,
        target=first.target,
        pid=next((event.pid for event in stages.values() if event.pid is not None), None),
        opened_ns=time_of("opened"),
        effect_ns=time_of("effect"),
        healed_ns=time_of("healed"),
        recovered_ns=time_of("recovered"),
        evidence={stage: event.evidence for stage, event in stages.items()},
    )
