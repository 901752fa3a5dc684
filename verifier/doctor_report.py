"""What `verify doctor` prints: what this machine can do, and which levels of faults it has."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

from ..nemesis.levels import LEVEL_NUMBERS, Finding, highest, level_here, missing_of
from .doctor import Probe


def report_lines(probes: Sequence[Probe], findings: Sequence[Finding]) -> Iterator[str]:
    """Say it as a table for people."""
    for probe in probes:
        yield f"{probe.state:<5} {probe.name:<17} {probe.found}"
        if probe.remedy:
            yield f"{'':<23} -> {probe.remedy}"
    yield ""
    for finding in findings:
        yield f"{_word(finding):<5} {finding.name:<17} {finding.found}"
        yield f"{'':<23} {'' if finding.passed else 'off: '}{finding.meaning}"
        if finding.remedy:
            yield f"{'':<23} -> {finding.remedy}"
    yield ""
    for number in LEVEL_NUMBERS:
        missing = [finding.name for finding in missing_of(number, findings)]
        state = f"off, it lacks {', '.join(missing)}" if missing else "on"
        yield f"level {number}: {state}"
    yield (
        f"--level auto: 0 for faults on processes, up to {highest(findings)} for what is more "
        "like the real thing there"
    )


def report_json(probes: Sequence[Probe], findings: Sequence[Finding]) -> str:
    """Say it as one JSON object: an entry a probe, and `levels`."""
    told: dict[str, object] = {
        probe.name: {"state": probe.state, "found": probe.found, "remedy": probe.remedy}
        for probe in probes
    }
    told["levels"] = {
        "probes": {
            finding.name: {
                "state": _word(finding),
                "found": finding.found,
                "meaning": finding.meaning,
                "remedy": finding.remedy,
            }
            for finding in findings
        },
        "levels": {
            str(number): {
                "on": not missing_of(number, findings),
                "missing": [finding.name for finding in missing_of(number, findings)],
                "powers": sorted(level_here(number, findings).powers),
            }
            for number in LEVEL_NUMBERS
        },
        "highest": highest(findings),
    }
    return json.dumps(told)


def _word(finding: Finding) -> str:
    return "ok" if finding.passed else "off"
