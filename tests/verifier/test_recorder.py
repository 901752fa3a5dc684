"""The recorder."""

from __future__ import annotations

from pathlib import Path

import pytest

from atleastonce.histories.ops import find_malformed, read_ops
from atleastonce.verifier.recorder import Recorder


def test_invocation_is_stored_before_invoke_returns(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path / "history.jsonl")

    recorder.invoke("dispatch", {"job": "a"}, "n1")

    [op] = read_ops(tmp_path / "history.jsonl")
    assert (op.index, op.type, op.f, op.value, op.node) == (
        0,
        "invoke",
        "dispatch",
        {"job": "a"},
        "n1",
    )


def test_process_is_used_again_after_ok_and_fail_but_never_after_info(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path / "history.jsonl")
    first = recorder.invoke("dispatch")
    recorder.complete(first, "ok", {"status": "queued"})
    second = recorder.invoke("dispatch")
    recorder.complete(second, "fail", error="400")
    third = recorder.invoke("dispatch")
    recorder.complete(third, "info", error="timed out")

    assert first.process == second.process == third.process == 0
    assert recorder.invoke("dispatch").process == 1


def test_process_of_the_callers_own_keeps_its_name_and_is_not_given_to_others(
    tmp_path: Path,
) -> None:
    recorder = Recorder(tmp_path / "history.jsonl")
    named = recorder.invoke("send", None, "n1", "n1/0")
    with pytest.raises(AssertionError, match="n1/0 invokes 'poll' with one open"):
        recorder.invoke("poll", None, "n1", "n1/0")
    recorder.complete(named, "ok")

    assert named.process == "n1/0"
    assert recorder.invoke("drain").process == 0
    assert recorder.tallies() == {"send": {"ok": 1}}


def test_concurrent_operations_have_different_processes_and_a_well_formed_history(
    tmp_path: Path,
) -> None:
    recorder = Recorder(tmp_path / "history.jsonl")
    ops = [recorder.invoke("dispatch") for _ in range(5)]
    for op in reversed(ops):
        recorder.complete(op, "ok")
    recorder.close()

    assert {op.process for op in ops} == set(range(5))
    assert find_malformed(read_ops(tmp_path / "history.jsonl")) is None
    assert recorder.count("dispatch", "invoke") == recorder.count("dispatch", "ok") == 5
    assert recorder.count("dispatch", "info") == 0


def test_completing_twice_is_our_bug(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path / "history.jsonl")
    op = recorder.invoke("dispatch")
    recorder.complete(op, "ok")

    with pytest.raises(AssertionError, match="completes 'dispatch', open is None"):
        recorder.complete(op, "ok")
