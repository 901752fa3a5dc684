"""What an exact rule finds about a job."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that breaks the plain form of a rule.

    Attributes:
        rule: Name of the rule.
        job: Number of the job; None where the rule is about processes or the whole history.
        sentence: What happened; why nothing explains it.
        from_ns: Where to look for fault windows, from.
        until_ns: Where to look for fault windows, until.
        explained: Why the contract allows it; None for a violation.
        doubt: Why it proves nothing, the machine having been starved; None where it does.
    """

    rule: str
    job: int | None
    sentence: str
    from_ns: int
    until_ns: int
    explained: str | None = None
    doubt: str | None = None


def doubt_reason(rule: str, doubts: Sequence[str]) -> str:
    """Return why a rule is unknown, given why each of its findings is in doubt."""
    more = f", and {len(doubts) - 1} more" if len(doubts) > 1 else ""
    return f"{rule} is in doubt: {doubts[0]}{more}"


def seconds(ns: int) -> str:
    """Return a duration for a sentence."""
    return f"{ns / 1e9:.3f} s"
