"""The end of a run, in words and in JSON."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

from atleastonce.checkers.verdict import RuleResult, Valid, Verdict, Violation
from atleastonce.histories.faults import Fault
from atleastonce.verifier.errors import Exit
from atleastonce.verifier.report import Outcome, as_json, headline, quiet_line, report_lines


def _outcome(valid: Valid, violations: int = 0) -> Outcome:
    witnesses = [
        Violation(
            rule="lost",
            job=f"job-{number}",
            sentence="it was acknowledged and never ran",
            records=[
                {
                    "type": "invoke",
                    "f": "dispatch",
                    "value": {"job": f"job-{number}", "kind": "short", "resend": False},
                    "time_ns": 2_000_000_000,
                    "file": "history.jsonl",
                }
            ],
            faults=[
                {
                    "kind": "kill-leader",
                    "target": "n1",
                    "from_ns": 3_000_000_000,
                    "until_ns": 9_000_000_000,
                }
            ],
        )
        for number in range(min(violations, 5))
    ]
    verdict = Verdict(
        valid=valid,
        rules={
            "lost": RuleResult(valid=violations == 0, violations=violations, explained=0),
            "completed-twice": RuleResult(valid=True, violations=0, explained=2),
        },
        strength={
            "attempts": 812,
            "faults": {"kill-leader": 2},
            "coverage": {"kill-leader": {"running": 3, "delayed": 1}},
            "bounds_95": {"lost": 0.01, "phantom": 0.0037},
        },
        violations=witnesses,
        reasons=["no drain was seen"] if valid == "unknown" else [],
    )
    times_ns = (3_000_000_000, 3_100_000_000, 5_000_000_000, None)
    fault = Fault("f1", "kill-leader", "n1", 5, *times_ns, {"effect": {"onset_ms": 1.5}})
    return Outcome(
        run=Path("/store/jobs-kill-leader/now"),
        workload="jobs",
        nemesis="kill-leader",
        seed=7,
        bugs=(),
        origin_ns=1_000_000_000,
        verdict=verdict,
        faults=[fault],
    )


def test_exit_status_follows_the_verdict() -> None:
    assert [int(status) for status in Exit] == [0, 1, 2, 3, 4]
    assert _outcome(True).status == Exit.VALID
    assert _outcome(False, 1).status == Exit.INVALID
    assert _outcome("unknown").status == Exit.UNKNOWN


def test_json_holds_verdict_rules_faults_strength_run_and_seed() -> None:
    found = json.loads(as_json(_outcome(True)))

    assert found["valid"] is True
    assert found["rules"]["completed-twice"] == {"valid": True, "violations": 0, "explained": 2}
    assert found["faults"] == [
        {
            "kind": "kill-leader",
            "target": "n1",
            "opened_s": 2.0,
            "healed_s": 4.0,
            "bit": True,
            "onset_ms": 1.5,
            "heal_ms": None,
        }
    ]
    assert found["strength"]["attempts"] == 812
    assert (found["run"], found["seed"]) == ("/store/jobs-kill-leader/now", 7)


def test_unknown_stays_unknown_in_json() -> None:
    assert json.loads(as_json(_outcome("unknown")))["valid"] == "unknown"


def test_report_names_rules_faults_strength_run_and_the_command_that_judges_again() -> None:
    text = "\n".join(report_lines(_outcome(True)))

    for part in (
        "completed-twice  valid             0          2",
        "kill-leader  n1       2.0 s   4.0 s  yes",
        "attempts    812",
        "kill-leader 2",
        "running 3; delayed 1",
        "at most 1.00% of jobs",
        "run       /store/jobs-kill-leader/now",
        "verify check /store/jobs-kill-leader/now",
    ):
        assert part in text
    assert text.isascii()


def test_first_witnesses_are_shown_and_the_rest_counted() -> None:
    text = "\n".join(report_lines(_outcome(False, 9)))

    assert "violation of lost: job job-0: it was acknowledged and never ran" in text
    assert "1.000 s  dispatch invoke  kind short  file history.jsonl" in text
    assert "fault kill-leader on n1, window 2.0 s to 8.0 s" in text
    assert "job-2" in text
    assert "job-3" not in text
    assert "... and 6 more of lost; verdict.json holds 5 witnesses" in text


def test_reason_of_an_unknown_verdict_is_shown() -> None:
    assert "because: no drain was seen" in "\n".join(report_lines(_outcome("unknown")))


def test_headline_and_quiet_line_say_the_verdict() -> None:
    bugged = dataclasses.replace(_outcome(False, 1), bugs=("ack-before-fsync",))

    assert headline(bugged)[0].startswith("INVALID  jobs under kill-leader, seed 7")
    assert "planted ack-before-fsync" in headline(bugged)[0]
    assert quiet_line(_outcome(True)) == "valid  /store/jobs-kill-leader/now"
