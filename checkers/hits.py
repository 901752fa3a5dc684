"""What the faults hit: kind by role and state of each process that was in the way, counted."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from ..histories.faults import Fault
from ..histories.ops import Json

NODES: Final = "nodes"
"""Key in a fault's evidence: by node an object with the `role` and `state` that it had."""

UNKNOWN: Final = "unknown"

Hits = dict[str, dict[str, dict[str, int]]]


def count_hits(faults: Iterable[Fault]) -> Hits:
    """Count what was hit by faults that bit: by kind, role and state.

    Nodes have the role and state that they had in their own words just before; where a fault looked
    again in a later step, the later word counts. Workers have the state that their supervisor and
    their journal told; a supervisor's is whether a job ran. What a fault tells nothing about counts
    under the words that it names its target with.
    """
    hits: Hits = {}
    for fault in faults:
        if not fault.bit:
            continue
        by_role = hits.setdefault(fault.kind, {})
        for role, state in _hit_by(fault):
            states = by_role.setdefault(role, {})
            states[state] = states.get(state, 0) + 1
    return hits


def _hit_by(fault: Fault) -> Iterator[tuple[str, str]]:
    nodes: dict[str, tuple[str, str]] = {}
    for stage in ("opened", "effect"):
        evidence = fault.evidence.get(stage, {})
        told = evidence.get(NODES)
        if isinstance(told, dict):
            nodes |= {name: _words(view) for name, view in told.items()}
    if nodes:
        yield from nodes.values()
        return
    opened = fault.evidence.get("opened", {})
    if fault.target.startswith("worker"):
        yield "worker", _worker_state(opened)
        return
    for target in fault.target.split(","):
        yield _role(target, opened), _state(opened)


def _role(target: str, opened: Mapping[str, Json]) -> str:
    """The role of what was hit, where only its name and the leader's are told."""
    if target.startswith("worker "):
        return "worker"
    leader = opened.get("leader")
    if leader is None:
        return target
    return "leader" if target == leader else "follower"


def _state(opened: Mapping[str, Json]) -> str:
    """A supervisor's state: whether any of its workers was in a job."""
    running = opened.get("running")
    if not isinstance(running, list):
        return UNKNOWN
    return "with jobs running" if running else "without jobs"


def _words(view: Json) -> tuple[str, str]:
    if not isinstance(view, dict):
        return UNKNOWN, UNKNOWN
    return str(view.get("role") or UNKNOWN), str(view.get("state") or UNKNOWN)


def _worker_state(opened: Mapping[str, Json]) -> str:
    """What it was doing, and what was in its hands beside."""
    held = [word for word in ("unstarted", "unacked") if opened.get(word)]
    state = str(opened.get("state") or UNKNOWN)
    return f"{state} with {' and '.join(held)}" if held else state
