"""What a run of the suite came to, file by file."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(slots=True)
class FileOutcome:
    """Counts of one test file."""

    passed: int = 0
    failed: int = 0
    skipped: int = 0
    took_s: float = 0.0


@dataclass(slots=True)
class Outcome:
    """One run.

    Attributes:
        mode: How it was run.
        files: Test file to its counts.
        failures: (test, first line of its reason).
        kills: How often the leader was killed meanwhile.
    """

    mode: str
    files: dict[str, FileOutcome] = field(default_factory=dict)
    failures: list[tuple[str, str]] = field(default_factory=list)
    kills: int = 0

    @property
    def passed(self) -> int:
        """How many tests passed."""
        return sum(counts.passed for counts in self.files.values())

    def lines(self) -> list[str]:
        """A table, and the failures under it."""
        lines = [f"{self.mode:34} passed failed skipped seconds"]
        for name, counts in sorted(self.files.items()):
            lines.append(
                f"{name:34} {counts.passed:6} {counts.failed:6} {counts.skipped:7} "
                f"{counts.took_s:7.1f}"
            )
        failed, skipped = len(self.failures), sum(c.skipped for c in self.files.values())
        took_s = sum(counts.took_s for counts in self.files.values())
        lines.append(f"{'all':34} {self.passed:6} {failed:6} {skipped:7} {took_s:7.1f}")
        if self.kills:
            lines.append(f"the leader was killed {self.kills} times")
        return lines + [f"FAILED {name}: {reason}" for name, reason in self.failures]


def read_outcome(mode: str, report: Path) -> Outcome:
    """Read pytest's JUnit XML.

    Raises:
        FileNotFoundError: pytest did not get as far as writing it.
    """
    outcome = Outcome(mode)
    for case in ElementTree.parse(report).iter("testcase"):
        name = case.get("classname", "").rpartition(".")[2]
        counts = outcome.files.setdefault(name, FileOutcome())
        counts.took_s += float(case.get("time", "0"))
        trouble = case.find("failure")
        if trouble is None:
            trouble = case.find("error")
        if trouble is not None:
            counts.failed += 1
            reason = trouble.get("message", "").splitlines() or [""]
            outcome.failures.append((f"{name}.{case.get('name')}", reason[0][:200]))
        elif case.find("skipped") is not None:
            counts.skipped += 1
        else:
            counts.passed += 1
    return outcome
