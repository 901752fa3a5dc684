"""What became of each fault."""

from __future__ import annotations

from dataclasses import dataclass, field

from ..histories.ops import Json
from .fault import Fault


@dataclass(slots=True)
class FaultResult:
    """One fault, as it went. Times are CLOCK_MONOTONIC ns; None where it did not come so far.

    Attributes:
        fault: As planned.
        target: What was hit, such as `n2`; the role if nothing was found.
        bit: Positive evidence was seen that it took effect.
        reason: Why it did not bite, was not seen healed, or had to be forced; empty if all is well.
        opened_ns: Written down, about to act.
        effect_ns: Seen in effect.
        healed_ns: Undone.
        recovered_ns: The target was seen healthy again.
        evidence: By event.
    """

    fault: Fault
    target: str
    bit: bool = False
    reason: str = ""
    opened_ns: int | None = None
    effect_ns: int | None = None
    healed_ns: int | None = None
    recovered_ns: int | None = None
    evidence: dict[str, dict[str, Json]] = field(default_factory=dict)
