"""What a checker answers."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import msgspec

from ..histories.ops import Json

__all__ = ["Json", "RuleResult", "Valid", "Verdict", "Violation", "read_verdict", "worst"]

Valid = bool | Literal["unknown"]


class RuleResult(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One rule over a whole history.

    Attributes:
        valid: False with violations, "unknown" where evidence is missing or in doubt.
        violations: How often nothing explains what happened.
        explained: How often a fault and a clause of the contract explain it.
        in_doubt: How often a bound of time was broken while the machine was starved.
    """

    valid: Valid
    violations: int
    explained: int
    in_doubt: int = 0


class Violation(msgspec.Struct, frozen=True, kw_only=True):
    """One violation with its witness.

    Attributes:
        rule: Name of the rule.
        job: The job, or None where the rule is about workers or the whole history.
        sentence: Why no rule of the contract explains it.
        records: The records of the job, in order of time, as in their files, each with `file`.
        faults: The fault windows around it.
    """

    rule: str
    job: str | None
    sentence: str
    records: list[dict[str, Json]] = []
    faults: list[dict[str, Json]] = []


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """`verdict.json`: the answer of the `attempts` checker.

    Attributes:
        valid: True, False or "unknown"; the worst of all rules and of the evidence.
        rules: Result by rule; of rules that share a symptom, the one nearest to the cause first.
        strength: What the verdict rests on.
        violations: Witnesses, at most `Contract.witnesses_max` a rule.
        reasons: Why the verdict is unknown, or what weakens it; empty for a plain verdict.
        in_doubt: Witnesses of what may be the machine's fault, which each sentence says, as many.
    """

    valid: Valid
    rules: dict[str, RuleResult]
    strength: dict[str, Json]
    violations: list[Violation]
    reasons: list[str]
    in_doubt: list[Violation] = []
    v: int = 1

    def to_json(self) -> bytes:
        """Return the verdict as one JSON object."""
        return msgspec.json.encode(self)


def worst(*verdicts: Valid) -> Valid:
    """Return the worst: False, then "unknown", then True."""
    if False in verdicts:
        return False
    return "unknown" if "unknown" in verdicts else True


def read_verdict(path: Path | str) -> Verdict:
    """Read `verdict.json`; raises msgspec.MsgspecError where it is not one."""
    return msgspec.json.decode(Path(path).read_bytes(), type=Verdict)
