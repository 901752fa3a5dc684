"""Clients of the workload `claim`, on a mock clock."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from atleastonce.histories.ops import Op
from atleastonce.system.client import Call
from atleastonce.system.client.keyvalue import KvAnswer
from atleastonce.verifier.recorder import Recorder
from atleastonce.workloads.claim import ClaimActivity

from .pinned_world import ENDPOINTS, Answer, error, load, run


class Register:
    """Keeps the first value of every key."""

    def __init__(self) -> None:
        self.values: dict[str, str] = {}
        self.fails = 0

    def answer(self, call: Call[Any]) -> tuple[Any, float]:
        [asked] = json.loads(call.body)["operations"]
        key = asked["key"]
        if self.fails:
            self.fails -= 1
            return error(503, "no_leader", False), 0.01
        if asked["op"] == "get":
            found, value = key in self.values, self.values.get(key)
            return (KvAnswer(op="get", found=found, value=_raw(value)),), 0.01
        assert (asked["op"], asked["ns"], asked["forever"]) == ("putIfAbsent", "claims", True)
        won = key not in self.values
        current = self.values.setdefault(key, asked["value"])
        return (KvAnswer(op="putIfAbsent", applied=won, value=_raw(current)),), 0.01


def _raw(value: str | None) -> msgspec.Raw:
    return msgspec.Raw(json.dumps(value).encode())


def claim_ops(tmp_path: Path) -> list[Op]:
    async def use(recorder: Recorder) -> None:
        activity = ClaimActivity(load(time_limit_s=5), ENDPOINTS, recorder)
        await activity.prepare()
        await activity.load()
        await activity.finish()

    return run(tmp_path, use)


def test_five_rivals_race_for_each_key_and_each_claims_it_once(
    tmp_path: Path, answers: Callable[[Answer], None]
) -> None:
    answers(Register().answer)

    ops = claim_ops(tmp_path)

    asked: list[Any] = [op.value for op in ops if op.f == "claim" and op.type == "invoke"]
    races = Counter(value["key"] for value in asked if not value["key"].startswith("last-"))
    assert set(races.values()) == {5}
    assert sum(value["key"].startswith("last-") for value in asked) == 6
    assert len({value["id"] for value in asked}) == len(asked)
    done: list[Any] = [op.value for op in ops if op.f == "claim" and op.type == "ok"]
    assert sum(value["won"] for value in done) == len({value["key"] for value in asked})
    assert all(value["current"] for value in done)


def test_every_key_is_read_at_every_node_at_the_end_however_often_that_fails(
    tmp_path: Path, answers: Callable[[Answer], None]
) -> None:
    register = Register()
    answers(register.answer)

    async def use(recorder: Recorder) -> None:
        activity = ClaimActivity(load(), ENDPOINTS, recorder)
        await activity.load()
        register.fails = 20
        await activity.finish()

    ops = run(tmp_path, use)

    finals = [op for op in ops if op.f == "read" and "final" in str(op.process)]
    unknown = [op for op in ops if op.f == "claim" and op.type == "info"]
    assert sum(op.type == "ok" for op in finals) == 3 * (len(register.values) + len(unknown))
    assert sum(op.type == "fail" for op in finals) == 20 - len(unknown)
    assert [op.type for op in ops if op.f == "final-read"].count("ok") == 3


def test_claim_without_answer_is_unknown_and_its_client_goes_on_as_another(
    tmp_path: Path, answers: Callable[[Answer], None]
) -> None:
    register = Register()
    register.fails = 8
    answers(register.answer)

    ops = claim_ops(tmp_path)

    unknown = [op for op in ops if op.f == "claim" and op.type == "info"]
    assert unknown
    for op in unknown:
        assert not any(o.process == op.process and o.index > op.index for o in ops)
