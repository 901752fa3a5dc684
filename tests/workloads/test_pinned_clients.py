"""Clients of the workloads `queue` and `log`, on a mock clock, with a broker made of a function."""

from __future__ import annotations

import json
import random
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
import trio
import trio.testing

from atleastonce.histories.log_ops import SentRecord
from atleastonce.histories.ops import Op, find_malformed, read_ops
from atleastonce.histories.queue_ops import digest_of
from atleastonce.system.client import (
    AckResult,
    BrokerError,
    Call,
    Endpoint,
    Fetched,
    FetchedPartition,
    FetchedRecord,
    Message,
    Popped,
    PushResult,
    TransactionResult,
)
from atleastonce.verifier.recorder import Recorder
from atleastonce.workloads.activity import Load
from atleastonce.workloads.log import LogActivity, Reader
from atleastonce.workloads.log_keys import Keys, payload_of
from atleastonce.workloads.pinned import PinnedClient, outcome_of
from atleastonce.workloads.queue import QueueActivity, make_payload

ENDPOINTS = {f"n{number}": Endpoint("127.0.0.1", number) for number in (1, 2, 3)}
Answer = Callable[[Call[Any]], tuple[Any, float]]
"""From a call to its answer, or the error to raise, and the seconds that it takes."""


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> Callable[[Answer], None]:
    """Let a function answer all calls."""

    def install(answer: Answer) -> None:
        async def ask(client: PinnedClient, call: Call[Any]) -> Any:
            value, seconds = answer(call)
            await trio.sleep(seconds)
            if isinstance(value, BrokerError):
                raise value
            return value

        monkeypatch.setattr(PinnedClient, "ask", ask)

    return install


def run(tmp_path: Path, use: Callable[[Recorder], Awaitable[None]]) -> list[Op]:
    recorder = Recorder(tmp_path / "history.jsonl")
    trio.run(use, recorder, clock=trio.testing.MockClock(autojump_threshold=0))
    recorder.close()
    ops = read_ops(tmp_path / "history.jsonl")
    assert find_malformed(ops) is None
    return ops


def load(**changes: Any) -> Load:
    values: dict[str, Any] = {"seed": 1, "rate": 60, "time_limit_s": 2.0, "settle_s": 0.0}
    return Load(**(values | changes))


def error(status: int | None, code: str, definite: bool) -> BrokerError:
    return BrokerError(status, code, "text", definite=definite)


@pytest.mark.parametrize(
    ("raised", "outcome"),
    [
        (error(400, "bad_request", True), "fail"),
        (error(None, "connection_refused", True), "fail"),
        (error(429, "overloaded", True), "info"),
        (error(503, "no_leader", False), "info"),
        (error(503, "outcome_unknown", False), "info"),
        (error(None, "connection_lost", False), "info"),
    ],
)
def test_only_what_was_certainly_not_applied_fails(raised: BrokerError, outcome: str) -> None:
    assert outcome_of(raised) == outcome


def _queue_ops(tmp_path: Path, finish: bool = False, **changes: Any) -> list[Op]:
    async def use(recorder: Recorder) -> None:
        activity = QueueActivity(load(**changes), ENDPOINTS, recorder)
        await (activity.finish() if finish else activity.load())

    return run(tmp_path, use)


def _queue_broker(ack: Callable[[list[dict[str, Any]]], Any]) -> Answer:
    """Each pop delivers the two messages of one lease; pushes are stored at offset 7."""

    def answer(call: Call[Any]) -> tuple[Any, float]:
        if call.name == "push":
            return (PushResult(0, "queued", "id", "t", 7),), 0.01
        if call.name == "pop":
            return Popped("lease", tuple(_message(offset) for offset in (4, 5))), 0.01
        assert call.name == "ack", call.name
        return ack(json.loads(call.body)["acknowledgments"]), 0.01

    return answer


def _message(offset: int) -> Message:
    id_ = f"x{offset}"
    data = msgspec.Raw(make_payload(id_))
    return Message(id_, id_, data, "11", "3", "lease", 2, offset)


def test_every_delivery_is_recorded_with_the_outcome_of_its_own_ack(
    tmp_path: Path, answers: Callable[[Answer], None]
) -> None:
    answers(_queue_broker(lambda acks: (AckResult(True, 1, noop=True),)))

    ops = _queue_ops(tmp_path)

    done = [op for op in ops if op.f == "dequeue" and op.type == "ok"]
    assert done
    first: Any = done[0].value
    assert first["deliveries"] == [
        {
            "id": f"x{offset}",
            "partition": "3",
            "offset": offset,
            "lease": "lease",
            "attempt": 2,
            "digest": digest_of(make_payload(f"x{offset}")),
            "ack": ack,
        }
        for offset, ack in ((4, "missing"), (5, "noop"))
    ]


@pytest.mark.parametrize(
    ("acked", "type_", "outcome"),
    [
        ((AckResult(True, 0), AckResult(True, 1)), "ok", "acked"),
        ((AckResult(False, 0, error="stale"), AckResult(False, 1)), "ok", "rejected"),
        (error(None, "connection_refused", True), "ok", "rejected"),
        (error(None, "timeout", False), "info", "unknown"),
    ],
)
def test_ack_is_known_only_by_its_answer(
    tmp_path: Path,
    answers: Callable[[Answer], None],
    acked: Any,
    type_: str,
    outcome: str,
) -> None:
    answers(_queue_broker(lambda acks: acked))

    ops = _queue_ops(tmp_path)

    ends = [op for op in ops if op.f == "dequeue" and op.type != "invoke"]
    assert {op.type for op in ends} == {type_}
    value: Any = ends[0].value
    assert {delivery["ack"] for delivery in value["deliveries"]} == {outcome}


def test_client_goes_on_as_another_process_after_an_unknown_outcome_and_never_asks_again(
    tmp_path: Path, answers: Callable[[Answer], None]
) -> None:
    bodies: list[bytes] = []

    def answer(call: Call[Any]) -> tuple[Any, float]:
        if call.name == "push":
            bodies.append(call.body)
            return error(503, "outcome_unknown", False), 0.01
        return error(None, "connection_lost", False), 0.01

    answers(answer)

    ops = _queue_ops(tmp_path)

    enqueues = [op for op in ops if op.f == "enqueue" and op.type == "invoke"]
    assert len({op.process for op in enqueues}) == len(enqueues)
    assert len(set(bodies)) == len(bodies) == len(enqueues)
    assert {op.type for op in ops if op.f == "dequeue"} == {"invoke", "fail"}
    assert {str(op.process).split("/")[0] for op in ops} == set(ENDPOINTS)
    assert all(op.node == str(op.process).split("/", maxsplit=1)[0] for op in ops)


def _drain(tmp_path: Path, final_s: float = 60) -> list[Op]:
    return _queue_ops(tmp_path, finish=True, final_s=final_s)


def test_drain_ends_when_every_client_found_nothing_for_longer_than_a_lease(
    tmp_path: Path, answers: Callable[[Answer], None]
) -> None:
    answers(lambda _: (Popped(), 1.0))

    ops = _drain(tmp_path)

    assert len([op for op in ops if op.f == "dequeue" and op.type == "ok"]) == 6 * (3 + 5)
    assert [op.type for op in ops if op.f == "drain"] == ["invoke", "ok"]


def test_pop_that_is_answered_early_or_not_at_all_is_no_sign_of_emptiness(
    tmp_path: Path, answers: Callable[[Answer], None]
) -> None:
    early: list[Any] = [Popped(), error(503, "no_leader", False)] * 6
    answers(lambda _: (early.pop(), 0.01) if early else (Popped(), 1.0))

    ops = _drain(tmp_path)

    assert len([op for op in ops if op.f == "dequeue" and op.type == "ok"]) == 6 * (3 + 5) + 6


def test_drain_that_keeps_finding_messages_is_recorded_as_unfinished(
    tmp_path: Path, answers: Callable[[Answer], None]
) -> None:
    answers(_queue_broker(lambda acks: error(400, "bad_request", True)))

    ops = _drain(tmp_path, final_s=5)

    [drain] = [op for op in ops if op.f == "drain" and op.type != "invoke"]
    assert (drain.type, drain.error) == ("info", "after 5 s: 6 clients still found messages")
    assert all(
        op.type != "invoke" or any(o.process == op.process and o.index > op.index for o in ops)
        for op in ops
    ), "an operation was cut off"


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
