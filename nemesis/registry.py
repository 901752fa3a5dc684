"""The nemeses by name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

NONE: Final = "none"


@dataclass(frozen=True, slots=True)
class NemesisSpec:
    """One nemesis; its faults carry its name as their kind.

    Attributes:
        name: What `--nemesis` takes.
        sentence: What it does.
        target: The role that it hits; empty for `none`.
        nodes_min: So many nodes keep a quorum, or return as one, while it acts.
        healing_s: How long healing may take beyond the fault itself, when a plan is made.
        pauses: Whether its duration is a pause's and not a down time.
    """

    name: str
    sentence: str
    target: str = ""
    nodes_min: int = 1
    healing_s: float = 1.0
    pauses: bool = False


_ALL: Final = (
    NemesisSpec(NONE, "no fault at all"),
    NemesisSpec(
        "kill-leader",
        "kills the leading node with SIGKILL and starts it again",
        "leader",
        nodes_min=3,
    ),
    NemesisSpec(
        "term-leader",
        "asks the leading node to stop with SIGTERM, as a deploy does, and starts it again",
        "leader",
        nodes_min=3,
        healing_s=3.0,
    ),
    NemesisSpec(
        "kill-follower",
        "kills a node that does not lead with SIGKILL and starts it again",
        "follower",
        nodes_min=3,
    ),
    NemesisSpec(
        "kill-all",
        "kills all nodes within a millisecond, as a power cut does, and starts them again",
        "nodes",
    ),
    NemesisSpec(
        "kill-worker",
        "kills a worker with SIGKILL in the middle of a job, with unstarted jobs in its hands",
        "worker",
    ),
    NemesisSpec(
        "kill-supervisor",
        "kills the supervisor's master with SIGKILL, which takes its workers along, and starts it",
        "supervisor",
    ),
    NemesisSpec(
        "term-supervisor",
        "asks the supervisor to stop with SIGTERM, as a deploy does, and starts it again",
        "supervisor",
        healing_s=6.0,
    ),
    NemesisSpec(
        "pause-leader",
        "stops the leading node with SIGSTOP, as a long pause would, and continues it",
        "leader",
        nodes_min=3,
        pauses=True,
    ),
    NemesisSpec(
        "bump-clock",
        "moves the leading node's time of day by up to five minutes, either way, and back",
        "leader",
    ),
    NemesisSpec(
        "flip-log",
        "kills all nodes, flips bits in the logs of most or all, starts them, and gives the bytes "
        "back to those that refuse",
        "nodes",
        healing_s=5.0,
    ),
)

NEMESES: Final[dict[str, NemesisSpec]] = {spec.name: spec for spec in _ALL}


class UnknownNemesisError(ValueError):
    """A name that no nemesis has, or a combination that makes no sense."""


def check_names(names: Sequence[str]) -> tuple[str, ...]:
    """Return the names if they exist and fit together.

    Raises:
        UnknownNemesisError: One line that names the value and the choices.
    """
    for name in names:
        if name not in NEMESES:
            choices = ", ".join(NEMESES)
            raise UnknownNemesisError(f"unknown nemesis {name!r}; choose from: {choices}")
    if not names:
        raise UnknownNemesisError(f"no nemesis named; choose from: {', '.join(NEMESES)}")
    if NONE in names and len(names) > 1:
        raise UnknownNemesisError(f"nemesis {','.join(names)!r}: none stands alone")
    if len(set(names)) < len(names):
        raise UnknownNemesisError(f"nemesis {','.join(names)!r}: name each one once")
    return tuple(names)


def parse_names(text: str) -> tuple[str, ...]:
    """Split `NAME[,NAME…]`; errors as `check_names`."""
    return check_names([name.strip() for name in text.split(",") if name.strip()])
