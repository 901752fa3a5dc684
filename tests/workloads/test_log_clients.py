"""Clients of the workload `log`, on a mock clock."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from atleastonce.histories.log_ops import SentRecord
from atleastonce.system.client import (
    Call,
    Fetched,
    FetchedPartition,
    FetchedRecord,
    PushResult,
    TransactionResult,
)
from atleastonce.verifier.recorder import Recorder
from atleastonce.workloads.log import LogActivity, Reader
from atleastonce.workloads.log_keys import Keys, payload_of
from atleastonce.workloads.pinned import PinnedClient

from .pinned_world import ENDPOINTS, Answer, error, load, run


class LogBroker:
    """Keeps what was appended; `behind` nodes would be the same, so there is one copy."""

    def __init__(self) -> None:
        self.records: dict[str, list[FetchedRecord]] = {}
        self.fetches: list[list[dict[str, Any]]] = []
        self.fail_fetches = False
        self.hidden: set[str] = set()

    def answer(self, call: Call[Any]) -> tuple[Any, float]:
        body = json.loads(call.body)
        if call.name == "push":
            [item] = body["items"]
            return (PushResult(0, "queued", "id", item["transactionId"], self.store(item)),), 0.01
        if call.name == "transaction":
            for item in body["operations"]:
                self.store(item)
            return TransactionResult(True), 0.01
        self.fetches.append(body["entries"])
        if self.fail_fetches:
            return error(503, "no_leader", False), 0.01
        entries = tuple(self.read(entry) for entry in body["entries"])
        has_records = any(entry.records for entry in entries)
        return Fetched(entries), 0.01 if has_records else call.wait_s

    def store(self, item: dict[str, Any]) -> int:
        log = self.records.setdefault(item["partition"], [])
        payload = msgspec.Raw(msgspec.json.encode(item["payload"]))
        log.append(FetchedRecord(len(log), item["transactionId"], payload))
        return len(log) - 1

    def read(self, entry: dict[str, Any]) -> FetchedPartition:
        log = self.records.get(entry["partition"], [])
        found = [r for r in log[entry["offset"] :] if r.transaction_id not in self.hidden]
        return FetchedPartition(entry["queue"], entry["partition"], tuple(found), len(log))


@pytest.mark.parametrize("txn", [False, True])
def test_log_is_read_to_its_end_at_every_node(
    tmp_path: Path, answers: Callable[[Answer], None], txn: bool
) -> None:
    broker = LogBroker()
    answers(broker.answer)

    async def use(recorder: Recorder) -> None:
        activity = LogActivity(load(txn=txn, time_limit_s=5), ENDPOINTS, recorder)
        await activity.load()
        await activity.finish()

    ops = run(tmp_path, use)

    sends: list[Any] = [op.value for op in ops if op.f == "send" and op.type == "invoke"]
    sizes = {len(send["records"]) for send in sends}
    assert sizes == ({1, 2, 3, 4} if txn else {1})
    total = sum(len(send["records"]) for send in sends)
    ends: list[Any] = [op.value for op in ops if op.f == "final-read" and op.type == "ok"]
    assert ends == [{"records": total, "missing": 0}] * 3
    assert {op.f for op in ops} == {"send", "poll", "assign", "crash", "final-read"}


def test_share_of_sends_is_made_once_more_with_the_same_records(
    tmp_path: Path, answers: Callable[[Answer], None]
) -> None:
    answers(LogBroker().answer)

    async def use(recorder: Recorder) -> None:
        await LogActivity(load(resend=1.0, resend_after_s_max=1.0), ENDPOINTS, recorder).load()

    ops = run(tmp_path, use)

    first, again = (
        [op.value for op in ops if op.f == f and op.type == "invoke"]
        for f in ("send", "send-again")
    )
    assert len(again) == len(first)
    assert all(value in first for value in again)


def test_final_reader_looks_again_for_what_is_missing_and_then_says_so(
    tmp_path: Path, answers: Callable[[Answer], None]
) -> None:
    broker = LogBroker()
    answers(broker.answer)

    async def use(recorder: Recorder) -> None:
        activity = LogActivity(load(), ENDPOINTS, recorder)
        await activity.load()
        broker.hidden = {log[-1].transaction_id for log in broker.records.values()}
        await activity.finish()

    ops = run(tmp_path, use)

    ends: list[Any] = [op.value for op in ops if op.f == "final-read" and op.type == "ok"]
    assert [end["missing"] for end in ends] == [len(broker.hidden)] * 3
    quiet = [op for op in ops if op.f == "poll" and op.type == "ok" and "final" in str(op.process)]
    assert len(quiet) >= 3 * 8


def test_positions_move_with_an_answer_and_go_back_to_the_beginning_with_a_crash(
    tmp_path: Path, answers: Callable[[Answer], None]
) -> None:
    broker = LogBroker()
    answers(broker.answer)
    for value in range(3):
        broker.store(
            {
                "partition": "k0",
                "transactionId": f"k0-{value}",
                "payload": json.loads(payload_of(SentRecord(0, value))),
            }
        )

    async def use(recorder: Recorder) -> None:
        reader = Reader(PinnedClient("n1", 0, ENDPOINTS["n1"], recorder, load()))
        reader.assign((0,))
        broker.fail_fetches = True
        await reader.poll()
        broker.fail_fetches = False
        await reader.poll()
        await reader.poll()
        reader.assign((1,))
        reader.assign((0, 1))
        await reader.poll()
        reader.crash()
        reader.assign((0,))
        await reader.poll()

    ops = run(tmp_path, use)

    asked = [[(e["partition"], e["offset"]) for e in entries] for entries in broker.fetches]
    assert asked == [
        [("k0", 0)],
        [("k0", 0)],
        [("k0", 3)],
        [("k0", 3), ("k1", 0)],
        [("k0", 0)],
    ]
    assert [op.process for op in ops if op.f == "poll" and op.type != "invoke"] == [
        *["n1/0"] * 4,
        "n1/0+1",
    ]


def test_transaction_that_rolled_back_as_a_duplicate_may_have_been_applied(
    tmp_path: Path, answers: Callable[[Answer], None]
) -> None:
    results = {True: "duplicate", False: "rejected_ack"}
    turn = iter([True, False] * 1000)
    answers(
        lambda call: (
            (TransactionResult(False, results[next(turn)], "rolled back"), 0.01)
            if call.name == "transaction"
            else (error(503, "no_leader", False), 0.01)
        )
    )

    async def use(recorder: Recorder) -> None:
        await LogActivity(load(txn=True), ENDPOINTS, recorder).load()

    ends = [op.type for op in run(tmp_path, use) if op.f == "send" and op.type != "invoke"]

    assert set(ends) == {"info", "fail"}


def test_key_retires_after_its_last_value_and_no_value_is_given_out_twice() -> None:
    keys, stream = Keys(active=2, writes=3), random.Random(1)

    taken = [keys.take(stream) for _ in range(30)]

    assert len(set(taken)) == 30
    assert max(record.value for record in taken) == 2
    assert len(keys.active) == 2
    assert keys.made == len({record.key for record in taken} | set(keys.active))
