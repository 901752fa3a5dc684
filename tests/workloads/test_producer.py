"""Producers on a mock clock, with a broker that is told what to answer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import trio
import trio.testing

from atleastonce.histories.attempts import payload_digest
from atleastonce.histories.ops import Json, OpType
from atleastonce.system.client import BrokerError
from atleastonce.system.jobs import ConnectionSettings, Dispatch, DispatchResult
from atleastonce.workloads.jobs import Arrival, JobKind
from atleastonce.workloads.producer import OpenOp, Producer

ENDPOINTS = (("127.0.0.1", 1), ("127.0.0.1", 2), ("127.0.0.1", 3))
CONNECTION = ConnectionSettings(endpoints=ENDPOINTS, partitions=16)
NODES = ("n1", "n2", "n3")


@dataclass
class Recorded:
    """A recorder that remembers in the order of events."""

    events: list[tuple[Any, ...]] = field(default_factory=list)
    _next: int = 0

    def invoke(self, f: str, value: Json = None, node: str | None = None) -> OpenOp:
        self._next += 1
        self.events.append(("invoke", self._next, value, node))
        return OpenOp(f, self._next)

    def complete(
        self,
        op: OpenOp,
        type_: OpType,
        value: Json = None,
        node: str | None = None,
        error: str | None = None,
    ) -> None:
        self.events.append((type_, op.process, value, node, error))


@dataclass
class Broker:
    """Answers each sending by a function of its first node and its number."""

    answer: Callable[[int, int], float]
    events: list[tuple[Any, ...]]
    sent: list[tuple[float, str, int, float, str]] = field(default_factory=list)

    async def send(
        self,
        dispatch: Dispatch,
        *,
        deadline_s: float | None = None,
        first_endpoint: int | None = None,
    ) -> DispatchResult:
        assert first_endpoint is not None
        self.events.append(("send", dispatch.body.id))
        self.sent.append(
            (
                trio.current_time(),
                dispatch.body.id,
                first_endpoint,
                dispatch.delay_s,
                dispatch.request_id,
            )
        )
        await trio.sleep(self.answer(first_endpoint, len(self.sent)))
        host, port = ENDPOINTS[first_endpoint]
        return DispatchResult(
            dispatch.body.id, "queued", dispatch.partition, 7, dispatch.digest, f"{host}:{port}", 1
        )


def _arrival(number: int, at_s: float, **changes: Any) -> Arrival:
    values: dict[str, Any] = {
        "at_s": at_s,
        "job": f"job-{number}",
        "kind": JobKind.SHORT,
        "work_ms": 10,
        "tries": 3,
        "backoff_s": (1,),
        "timeout_s": 5,
        "delay_s": 0.0,
        "via": 0,
        "resend_after_s": None,
        "resend_via": 1,
    }
    return Arrival(**(values | changes))


def _produce(
    arrivals: list[Arrival], answer: Callable[[int, int], float] = lambda node, number: 0.01
) -> tuple[Recorded, Broker]:
    recorded = Recorded()
    broker = Broker(answer, recorded.events)

    async def main() -> None:
        await Producer(broker, recorded, CONNECTION, NODES).run(arrivals)

    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))
    return recorded, broker


def test_invocation_is_recorded_before_the_job_is_sent_and_names_everything() -> None:
    recorded, _ = _produce([_arrival(1, 0.5)])

    invoke, send, ok = recorded.events
    assert [invoke[0], send[0], ok[0]] == ["invoke", "send", "ok"]
    assert invoke[2] == {
        "job": "job-1",
        "kind": "short",
        "queue": "jobs",
        "partition": invoke[2]["partition"],
        "tries": 3,
        "backoff_s": [1],
        "timeout_s": 5,
        "delay_s": 0.0,
        "not_before_ns": None,
        "digest": payload_digest({"kind": "short", "work_ms": 10, "mark": "job-1"}),
        "resend": False,
    }
    assert invoke[3] == ok[3] == "n1"
    assert ok[2] == {"status": "queued", "offset": 7}


def test_node_that_hangs_holds_up_its_own_requests_alone() -> None:
    arrivals = [_arrival(number, number / 10, via=number % 2) for number in range(20)]

    _, broker = _produce(arrivals, lambda node, number: 60.0 if node == 0 else 0.01)

    assert [round(at, 2) for at, *_ in broker.sent] == [a.at_s for a in arrivals]


def test_resend_carries_the_same_job_through_another_node() -> None:
    recorded, broker = _produce([_arrival(1, 0.0, resend_after_s=2.0, resend_via=2)])

    (first_at, first_job, first_node, _, first_request), (at, job, node, _, request) = broker.sent
    assert (first_at, first_job, first_node) == (0.0, "job-1", 0)
    assert (at, job, node) == (2.0, "job-1", 2)
    assert request != first_request
    invokes = [event for event in recorded.events if event[0] == "invoke"]
    assert [event[2]["resend"] for event in invokes] == [False, True]


def test_resend_does_not_wait_for_the_first_answer() -> None:
    _, broker = _produce(
        [_arrival(1, 0.0, resend_after_s=1.0)], lambda node, number: 30.0 if number == 1 else 0.0
    )

    assert [at for at, *_ in broker.sent] == [0.0, 1.0]


def test_delayed_job_keeps_its_due_time_when_it_is_sent_again() -> None:
    recorded, broker = _produce([_arrival(1, 0.0, delay_s=4.0, resend_after_s=0.0)])

    delays = [delay_s for _, _, _, delay_s, _ in broker.sent]
    assert 3.9 < delays[0] <= 4.001
    assert delays[1] <= delays[0]
    invokes = [event for event in recorded.events if event[0] == "invoke"]
    due = [event[2]["not_before_ns"] for event in invokes]
    assert due[0] == due[1] is not None


def test_definite_error_fails_and_any_other_is_info() -> None:
    for definite, type_ in ((True, "fail"), (False, "info")):

        def refuse(node: int, number: int, definite: bool = definite) -> float:
            raise BrokerError(503, "no_leader", "nobody leads", definite=definite)

        recorded, _ = _produce([_arrival(1, 0.0)], refuse)

        assert recorded.events[-1][0] == type_
        assert "no_leader" in recorded.events[-1][4]
