"""What makes a verdict unknown, and what it rests on."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from atleastonce.checkers import attempts
from atleastonce.checkers.attempts import check_attempts
from atleastonce.checkers.contract import (
    RULES,
    ContractError,
    contract_from_json,
    load_contract,
)
from atleastonce.checkers.verdict import Verdict, read_verdict
from atleastonce.histories.attempts import RECORD_BYTES
from atleastonce.histories.notation_parser import parse

Judge = Callable[..., Verdict]

ONE = """
    0.0 dispatch a
    0.1 w1 got a#1
    0.2 w1 start a#1
    0.3 w1 end a
    0.4 w1 ack a
    """
END = """
    30.0 drained
    31.0 stop
"""


def test_history_without_attempts_is_unknown(judge: Judge) -> None:
    verdict = judge("0.0 dispatch a info" + END)
    assert verdict.valid == "unknown"
    assert verdict.reasons == ["no attempt was recorded"]


def test_fault_that_did_not_bite_is_unknown(judge: Judge) -> None:
    verdict = judge(ONE + "0.2 fault kill-leader n1 unseen" + END)
    assert verdict.valid == "unknown"
    assert "never seen in effect" in verdict.reasons[0]


def test_violation_beside_an_unbitten_fault_is_invalid(judge: Judge) -> None:
    verdict = judge(ONE + "0.2 fault kill-leader n1 unseen\n 1.0 dispatch b" + END)
    assert verdict.valid is False


def test_planned_fault_that_was_never_opened_is_unknown(tmp_path: Path) -> None:
    folder = parse(ONE + "0.2 fault kill-leader n1 healed=1" + END).write(tmp_path / "run")
    folder.faults.write_bytes(b"")
    verdict = check_attempts(folder.read(), load_contract())
    assert verdict.valid == "unknown"


def test_bad_record_is_unknown_with_file_and_offset(tmp_path: Path) -> None:
    folder = parse(ONE + "1.0 dispatch b" + END).write(tmp_path / "run")
    (file,) = folder.attempts.glob("*.jsonl")
    data = bytearray(file.read_bytes())
    data[2 * RECORD_BYTES + 100] ^= 1
    file.write_bytes(data)
    verdict = check_attempts(folder.read(), load_contract())
    assert verdict.valid == "unknown"
    assert all(result.valid == "unknown" for result in verdict.rules.values())
    assert f"{file} at byte {2 * RECORD_BYTES}: checksum" in verdict.reasons[0]


def test_torn_last_record_is_tolerated_and_reported(tmp_path: Path) -> None:
    folder = parse(ONE + END).write(tmp_path / "run")
    (file,) = folder.attempts.glob("*.jsonl")
    with file.open("ab") as end:
        end.write(b'{"crc":"0123')
    verdict = check_attempts(folder.read(), load_contract())
    assert verdict.valid is True
    assert verdict.strength["torn_files"] == 1


def test_end_without_start_is_a_contradiction(judge: Judge, tmp_path: Path) -> None:
    folder = parse(ONE + END).write(tmp_path / "run")
    (file,) = folder.attempts.glob("*.jsonl")
    data = file.read_bytes()
    file.write_bytes(data[:RECORD_BYTES] + data[2 * RECORD_BYTES :])
    verdict = check_attempts(folder.read(), load_contract())
    assert verdict.valid == "unknown"
    assert "never started" in verdict.reasons[0]


def test_malformed_operations_are_unknown(tmp_path: Path) -> None:
    folder = parse(ONE + END).write(tmp_path / "run")
    lines = folder.history.read_bytes().splitlines(keepends=True)
    folder.history.write_bytes(b"".join([*lines, lines[-1]]))
    verdict = check_attempts(folder.read(), load_contract())
    assert verdict.valid == "unknown"
    assert "history.jsonl at byte" in verdict.reasons[0]


def test_witness_holds_the_records_of_the_job_and_the_faults_around_it(judge: Judge) -> None:
    history = (
        ONE
        + """
    1.0 dispatch b p=1
    1.1 w1 got b#2
    1.2 w1 start b#2
    1.3 w1 end b
    1.4 w1 ack b
    2.0 fault kill-follower n2 healed=3 recovered=3
    """
    )
    verdict = judge(history + END)
    (violation,) = verdict.violations
    assert (violation.rule, violation.job) == ("attempt-number", "b")
    events = [record.get("e") or record.get("type") for record in violation.records]
    assert events == ["invoke", "ok", "prefetched", "started", "ended", "acked"]
    assert [fault["kind"] for fault in violation.faults] == ["kill-follower"]
    assert "number 2 where 1 is due" in violation.sentence


def test_witnesses_are_bounded_and_violations_are_not(judge: Judge) -> None:
    verdict = judge(ONE + "\n".join(f"1.0 dispatch b{n} p={n}" for n in range(30)) + END)
    assert verdict.rules["lost"].violations == 30
    assert len(verdict.violations) == 20


def test_strength_states_coverage_by_kind_and_state(judge: Judge) -> None:
    history = """
    0.0 dispatch a p=0 backoff=1
    0.0 dispatch b p=1
    0.0 dispatch c p=2 delay=3
    0.0 dispatch d p=3
    0.0 dispatch e p=4
    0.95 dispatch f p=5 done=1.2
    0.1 w1 got a#1 b#1 d#1 e#1
    0.2 w1 start a#1
    0.3 w1 end a threw
    0.4 w1 ack a
    0.4 w1 start b#1
    0.9 w1 end b
    0.91 w1 start d#1
    1.0 fault kill-follower n2 healed=1.1 recovered=1.1
    1.2 w1 ack b
    1.3 w1 end d
    1.4 w1 ack d
    1.5 w1 start e#1
    1.6 w1 end e
    1.7 w1 ack e
    1.8 w1 got a#2 f#1
    1.8 w1 start a#2
    1.9 w1 end a
    1.9 w1 ack a
    1.9 w1 start f#1
    1.9 w1 end f
    1.9 w1 ack f
    3.1 w1 got c#1
    3.1 w1 start c#1
    3.1 w1 end c
    3.1 w1 ack c
    """
    verdict = judge(history + END)
    assert verdict.valid is True, verdict.violations
    assert verdict.strength["fault_coverage"] == {
        "kill-follower": {
            "dispatch in flight": 1,
            "prefetched": 1,
            "running": 1,
            "ended, not acked": 1,
            "backing off": 1,
            "delayed": 1,
        }
    }
    bounds = verdict.strength["bounds_95"]
    assert isinstance(bounds, dict)
    assert bounds["lost"] == pytest.approx(3 / 6)
    assert bounds["overlap"] == pytest.approx(3 / 7)


def test_verdict_survives_its_file(judge: Judge, tmp_path: Path) -> None:
    verdict = judge(ONE + "1.0 dispatch b" + END)
    (tmp_path / "verdict.json").write_bytes(verdict.to_json())
    assert read_verdict(tmp_path / "verdict.json") == verdict
    assert list(verdict.rules) == list(RULES)


def test_contract_survives_the_scenario() -> None:
    contract = load_contract("atleastonce", lease_s=4.0, prefetch=1)
    stored = msgspec.json.decode(msgspec.json.encode(contract.to_json()))
    assert contract_from_json(stored) == contract


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ('[waivers]\nlost = "never mind"', "'lost' is never waived"),
        ('[waivers]\nlate-ish = "x"', "unknown rule 'late-ish'"),
        ("[bounds]\nlease_minutes = 3", "lease_minutes"),
        ('order = "total"', "order"),
        ("[bounds]\nworkers = 0", "workers"),
        ("=", "Invalid"),
    ],
)
def test_contract_with_a_bad_value_names_it(tmp_path: Path, text: str, complaint: str) -> None:
    path = tmp_path / "bad.toml"
    path.write_text('name = "x"\nguarantee = "at-least-once"\n' + text)
    with pytest.raises(ContractError, match=complaint):
        load_contract(path)


def test_unknown_contract_names_the_choices() -> None:
    with pytest.raises(ContractError, match="choose from: atleastonce"):
        load_contract("celery-on-mars")


def test_waived_violation_counts_as_explained(tmp_path: Path) -> None:
    path = tmp_path / "mild.toml"
    path.write_text('name = "x"\nguarantee = "at-least-once"\n[waivers]\nphantom = "old jobs"')
    history = ONE.replace("0.0 dispatch a", "0.0 dispatch b info")
    verdict = check_attempts(
        parse(history + END).write(tmp_path / "run").read(), load_contract(path)
    )
    assert verdict.valid is True
    assert verdict.rules["phantom"].explained == 1


def test_every_rule_is_named_by_a_judge_or_a_global_rule(judge: Judge) -> None:
    assert set(judge(ONE + END).rules) == set(RULES)


def test_order_of_files_does_not_matter(judge: Judge, tmp_path: Path) -> None:
    history = (
        ONE
        + """
    1.0 dispatch b p=1
    1.1 w2 got b#1
    1.2 w2 start b#1
    1.3 w2 end b
    1.4 w2 ack b
    """
    )
    for number, order in enumerate(itertools.permutations([0, 1])):
        folder = parse(history + END).write(tmp_path / f"{number}")
        for position, file in zip(order, sorted(folder.attempts.glob("*.jsonl")), strict=True):
            file.rename(file.with_name(f"{position}.jsonl"))
        assert check_attempts(folder.read(), load_contract()).valid is True


def test_large_run_is_judged_by_queries_with_the_same_verdict(
    judge: Judge, monkeypatch: pytest.MonkeyPatch
) -> None:
    history = (
        ONE
        + """
    1.0 dispatch b p=1
    1.0 dispatch c p=2
    1.1 w1 got c#2
    1.2 w1 start c#2
    1.3 w1 end c threw
    """
    )
    small = judge(history + END)
    monkeypatch.setattr(attempts, "FEW_JOBS", 0)
    assert judge(history + END).rules == small.rules
    assert small.rules["lost"].violations == 2
    assert small.rules["attempt-number"].violations == 1
