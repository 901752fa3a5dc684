"""Waiting until nothing is left, and reading back what was given up."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
import trio
import trio.testing

from atleastonce.histories.attempts import payload_digest
from atleastonce.histories.ops import Op, read_ops
from atleastonce.system.client import (
    Answer,
    AsyncClient,
    BrokerError,
    DeadLetter,
    DeadLetters,
    Depth,
    Endpoint,
)
from atleastonce.system.jobs import FailedJob, FailedStore
from atleastonce.verifier.drain import Drain, Quiet
from atleastonce.verifier.progress import AttemptTail
from atleastonce.verifier.recorder import Recorder

AT = Endpoint("127.0.0.1", 1)


class Broker(AsyncClient):
    """Says what it was told to: pending messages poll by poll, timers, dead letters by group."""

    def __init__(self, pending: Sequence[int | None], timers: Sequence[int] = (0,)) -> None:
        super().__init__((AT,))
        self._pending = list(pending)
        self._timers = list(timers)
        self.letters: dict[str, list[DeadLetter]] = {}

    async def depth(self, queue: str, group: str) -> Answer[Depth]:
        await trio.lowlevel.checkpoint()
        value = self._pending.pop(0) if len(self._pending) > 1 else self._pending[0]
        if value is None:
            raise BrokerError(503, "no_leader", "nobody leads", definite=True)
        return Answer(Depth(pending=value), AT, 1)

    async def count_timers(self, queue: str, prefix: str = "") -> Answer[int]:
        await trio.lowlevel.checkpoint()
        return Answer(self._timers.pop(0) if len(self._timers) > 1 else self._timers[0], AT, 1)

    async def dlq(
        self, queue: str, group: str, *, limit: int = 100, offset: int = 0
    ) -> Answer[DeadLetters]:
        await trio.lowlevel.checkpoint()
        page = self.letters.get(group, [])[offset : offset + limit]
        return Answer(DeadLetters(tuple(page)), AT, 1)


@pytest.fixture
def history(tmp_path: Path) -> Path:
    return tmp_path / "history.jsonl"


def _drain(broker: Broker, history: Path) -> Drain:
    attempts = history.parent / "attempts"
    attempts.mkdir()
    return Drain(broker, Recorder(history), AttemptTail(attempts), "jobs", "workers")


def _wait(broker: Broker, history: Path, deadline_s: float) -> tuple[bool, Op]:
    async def main() -> bool:
        return await _drain(broker, history).wait(Quiet(0, deadline_s))

    drained = trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))
    return drained, read_ops(history)[-1]


def test_drained_once_no_message_and_no_timer_is_left(history: Path) -> None:
    drained, op = _wait(Broker([3, 1, 0], [1, 1, 2, 0]), history, 60)

    assert drained
    assert (op.f, op.type, op.value) == ("drain", "ok", {"pending": 0, "timers": 0})


def test_deadline_ends_the_wait_and_says_what_was_left(history: Path) -> None:
    drained, op = _wait(Broker([2], [1]), history, 5)

    assert not drained
    assert (op.f, op.type) == ("drain", "info")
    assert op.error == "after 5 s: 2 pending, 1 timers"


def test_broker_that_does_not_answer_is_asked_again(history: Path) -> None:
    assert _wait(Broker([None, None, 0]), history, 60)[0]


def test_broker_that_never_answers_is_named(history: Path) -> None:
    _, op = _wait(Broker([None]), history, 5)

    assert op.error is not None
    assert "no_leader" in op.error


def _letter(job: str, data: dict[str, Any]) -> DeadLetter:
    payload = msgspec.json.encode({"_job": {"job": "work", "id": job, "data": data}})
    return DeadLetter("m", job, "p", "p-1", msgspec.Raw(payload), error_message="boom")


def test_all_pages_of_dead_letters_are_read_with_the_digest_of_the_dispatch(history: Path) -> None:
    broker = Broker([0])
    broker.letters["workers"] = [_letter(f"j{n}", {"b": 1, "a": n}) for n in range(250)]
    broker.letters["__timer__"] = [
        DeadLetter("m", "txn-1", "p", "p-1", msgspec.Raw(b'"no job"'), error_message="late")
    ]

    async def main() -> None:
        await _drain(broker, history).read_dead_letters()

    trio.run(main)

    op = read_ops(history)[-1]
    assert op.type == "ok"
    assert isinstance(op.value, dict)
    jobs: Any = op.value["jobs"]
    assert len(jobs) == 251
    assert jobs[7] == ["j7", payload_digest({"a": 7, "b": 1}), "boom"]
    assert jobs[250][0] == "txn-1"


def test_failed_jobs_are_read_with_the_digest_of_the_dispatch(history: Path) -> None:
    path = history.parent / "failed.sqlite"
    store = FailedStore(path)
    payload = msgspec.json.encode({"_job": {"job": "work", "id": "j1", "data": {"a": 1}}}).decode()
    store.add(
        FailedJob(
            "j1", "work", "jobs", payload, "0" * 64, "exception", "boom", 2, 1.0, "p-1", "p", "j1"
        )
    )
    store.close()
    store.close()

    _drain(Broker([0]), history).read_failed_jobs(path)

    op = read_ops(history)[-1]
    assert (op.type, op.value) == ("ok", {"jobs": [["j1", payload_digest({"a": 1}), "exception"]]})


def test_failed_job_store_that_cannot_be_read_is_info(history: Path) -> None:
    path = history.parent / "failed.sqlite"
    path.write_bytes(b"this is no database" * 100)

    _drain(Broker([0]), history).read_failed_jobs(path)

    assert read_ops(history)[-1].type == "info"
