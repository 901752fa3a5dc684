"""Clients of the workload `queue`, on a mock clock."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
import trio

from atleastonce.histories.ops import Op
from atleastonce.histories.queue_ops import digest_of
from atleastonce.system.client import (
    AckResult,
    BrokerError,
    Call,
    Message,
    Popped,
    PushResult,
)
from atleastonce.verifier.recorder import Recorder
from atleastonce.workloads.pinned import outcome_of
from atleastonce.workloads.queue import QueueActivity, make_payload

from .pinned_world import ENDPOINTS, Answer, error, load, run


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


def test_share_of_deliveries_is_held_for_a_while_before_its_ack(
    tmp_path: Path, answers: Callable[[Answer], None]
) -> None:
    acked_s: list[float] = []

    def ack(_: object) -> tuple[AckResult, ...]:
        acked_s.append(trio.current_time())
        return ()

    answers(_queue_broker(ack))

    _queue_ops(tmp_path, hold=1.0, time_limit_s=3)

    # Six clients hold for 0.3 s to 2.1 s each time; without that each would ack ten times a second.
    assert 6 <= len(acked_s) < 60


def test_share_of_acks_is_asked_for_once_more_by_clients_of_their_own(
    tmp_path: Path, answers: Callable[[Answer], None]
) -> None:
    answers(_queue_broker(lambda acks: (AckResult(True, 0), AckResult(True, 1))))

    ops = _queue_ops(tmp_path, reack=1.0)

    pops = [op for op in ops if op.f == "dequeue" and op.type == "ok"]
    again = [op for op in ops if op.f == "ack-again" and op.type == "ok"]
    assert len(again) == len(pops)
    assert len({op.process for op in again}) == len(again)
    assert {op.node for op in again} == set(ENDPOINTS)
    assert again[0].value == {"acks": ["acked", "acked"]}


def test_share_of_enqueues_is_sent_once_more_with_the_same_ids(
    tmp_path: Path, answers: Callable[[Answer], None]
) -> None:
    answers(_queue_broker(lambda acks: (AckResult(True, 0), AckResult(True, 1))))

    ops = _queue_ops(tmp_path, resend=1.0, resend_after_s_max=1.0)

    first, again = (
        [op.value for op in ops if op.f == f and op.type == "invoke"]
        for f in ("enqueue", "enqueue-again")
    )
    assert len(again) == len(first)
    assert all(value in first for value in again)


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


def _empty(call: Call[Any], pop_s: float) -> tuple[Any, float]:
    """Every push is stored, and every pop finds nothing."""
    if call.name == "push":
        return (PushResult(0, "queued", "id", "t", 7),), 0.01
    return Popped(), pop_s


def test_every_client_writes_at_last_until_it_is_acknowledged(
    tmp_path: Path, answers: Callable[[Answer], None]
) -> None:
    refused = [error(503, "no_leader", False)] * 9
    answers(
        lambda call: (refused.pop(), 0.01) if refused and call.name == "push" else _empty(call, 1)
    )

    ops = _drain(tmp_path)

    writes = [op for op in ops if op.f == "enqueue"]
    assert sum(op.type == "ok" for op in writes) == 6
    assert sum(op.type == "info" for op in writes) == 9
    drain = next(op for op in ops if op.f == "drain")
    assert all(op.index < drain.index for op in writes)


def test_writing_at_last_ends_where_nothing_is_ever_acknowledged(
    tmp_path: Path, answers: Callable[[Answer], None]
) -> None:
    answers(
        lambda call: (error(503, "timeout", False), 5.0) if call.name == "push" else _empty(call, 1)
    )

    ops = _drain(tmp_path)

    writes = [op for op in ops if op.f == "enqueue" and op.node == "n1"]
    assert {op.type for op in writes} == {"invoke", "info"}
    # Five seconds each, over 25 seconds, by two clients.
    assert sum(op.type == "invoke" for op in writes) in (10, 12)
    assert [op.type for op in ops if op.f == "drain"] == ["invoke", "ok"]


def _drain(tmp_path: Path, final_s: float = 60) -> list[Op]:
    return _queue_ops(tmp_path, finish=True, final_s=final_s)


def test_drain_ends_when_every_client_found_nothing_for_longer_than_a_lease(
    tmp_path: Path, answers: Callable[[Answer], None]
) -> None:
    answers(lambda call: _empty(call, 1.0))

    ops = _drain(tmp_path)

    assert len([op for op in ops if op.f == "dequeue" and op.type == "ok"]) == 6 * (3 + 5)
    assert [op.type for op in ops if op.f == "drain"] == ["invoke", "ok"]


def test_pop_that_is_answered_early_or_not_at_all_is_no_sign_of_emptiness(
    tmp_path: Path, answers: Callable[[Answer], None]
) -> None:
    early: list[Any] = [Popped(), error(503, "no_leader", False)] * 6
    answers(lambda call: (early.pop(), 0.01) if early and call.name == "pop" else _empty(call, 1.0))

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
