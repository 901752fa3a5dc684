"""What is known of a nemesis before it acts: its name, targets, needs, options and draws."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal

import msgspec

from ..histories.ops import Json
from .settings import NemesisSettings

NONE: Final = "none"

Family = Literal["", "process", "network", "disk", "clock", "membership"]
Takes = Literal["node", "lost", "pause", "worker", "supervisor", "stepwise"]
Draw = Callable[[random.Random, NemesisSettings], dict[str, Json]]

AT_ONCE: Final = (0.0, 0.0)
"""The duration of a fault that is over when it has struck."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NemesisSpec:
    """One nemesis; its faults carry its name as their kind.

    Attributes:
        name: What `--nemesis` takes.
        sentence: What it does.
        target: The selector of its faults unless a plan says another; empty for `none`.
        targets: All selectors that it takes; empty if `target` is the only one.
        drawn: Selectors of which each fault draws one in place of `target`; all are taken.
        named: Whether it also takes nodes by name, such as `n1+n3`.
        family: The group that it belongs to.
        needs: Powers that the run's level must have.
        takes: What its faults take away, in a contract's words: a `node` (a worker's way to the
            broker), what may charge a lease (`lost`), a `pause`, a `worker`, a `supervisor`;
            `stepwise` if it is seen in effect only after its last step.
        options: What its faults can be told; each field has a default. None if nothing.
        draw: Draws options from a fault's own stream. None leaves the defaults.
        nodes_min: So many nodes keep a quorum, or return as one, while it acts.
        healing_s: How long healing may take beyond the fault itself, when a plan is made.
        users: `workers` if it hits these wherever its target is, so that the run must have some.
        pauses: Whether its duration is a pause's and not a down time.
        overlaps: Whether it holds no node and may act beside faults that do.
        duration_s: Shortest and longest duration in whole milliseconds, where it is neither.
        exits: Statuses with which the nodes that it hits may end themselves while it lasts.
    """

    name: str
    sentence: str
    target: str = ""
    targets: tuple[str, ...] = ()
    drawn: tuple[str, ...] = ()
    named: bool = False
    family: Family = ""
    needs: frozenset[str] = frozenset()
    takes: frozenset[Takes] = frozenset()
    options: type[msgspec.Struct] | None = None
    draw: Draw | None = None
    nodes_min: int = 1
    healing_s: float = 1.0
    users: str = ""
    pauses: bool = False
    overlaps: bool = False
    duration_s: tuple[float, float] | None = None
    exits: frozenset[int] = frozenset()
