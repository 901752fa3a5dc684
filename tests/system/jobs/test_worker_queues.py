"""A worker of several queues takes them in order, and is not busy while all are empty."""

from __future__ import annotations

import itertools
import os
import signal

import msgspec
import pytest

from atleastonce.system.client import Popped, SyncClient
from atleastonce.system.client.calls import pop
from atleastonce.system.jobs.settings import IDLE_S_MIN, SettingError, WorkerSettings
from atleastonce.system.jobs.unread import unread_call, unread_debt

from .machine_broker import GROUP, QUEUE, Asked, Fault, MachineBroker
from .worker_process import LEASE_S, Bench

HIGH = "high"
BOTH = (HIGH, QUEUE)
SEVERAL = {"queue": HIGH, "queues": BOTH, "block_for_s": 0.0, "sleep_s": 0.05}


def push_high(broker: MachineBroker, job_id: str, job: str = "work") -> None:
    body = {"job": job, "id": job_id, "partition": "p-0000", "data": None}
    item = {
        "queue": HIGH,
        "partition": "p-0000",
        "transactionId": job_id,
        "payload": {"_job": body},
    }
    (result,) = broker.ask("POST", "/api/v1/push", {"items": [item]})
    assert result["status"] == "queued", result


def started(bench: Bench) -> list[str]:
    return [record["job_id"] for record in bench.records("AttemptStarting")]


def pops(broker: MachineBroker) -> list[tuple[str, Asked]]:
    """Queue and request of every pop."""
    return [
        (asked.target.split("?")[0].rpartition("/")[2], asked)
        for asked in list(broker.asked)
        if asked.kind == "pop"
    ]


def ready_in(broker: MachineBroker, queue: str) -> int:
    return int(
        broker.ask("GET", f"/api/v1/resources/queues/{queue}/depth?group={GROUP}")["pending"]
    )


def test_the_first_queue_with_jobs_wins_each_time(bench: Bench, broker: MachineBroker) -> None:
    for name in ("low1", "low2"):
        broker.push_job(name, "gated")
    for name in ("high1", "high2"):
        push_high(broker, name)
    bench.start(**SEVERAL)
    bench.wait_for(lambda: started(bench) == ["high1", "high2", "low1"])
    push_high(broker, "high3")
    bench.gate.open(2)
    bench.wait_for_records("AttemptAcked", 5)
    assert started(bench) == ["high1", "high2", "low1", "high3", "low2"]
    assert (ready_in(broker, HIGH), broker.pending()) == (0, 0)


def test_a_job_comes_back_to_the_queue_that_it_is_of_and_is_given_up_there(
    bench: Bench, broker: MachineBroker
) -> None:
    broker.push_job("low", "throws", data="x", tries=2)
    bench.start(**SEVERAL, backoff_s=(0.0,))
    bench.wait_for_records("JobGaveUp", 1)
    assert [(r["job_id"], r["attempt"]) for r in bench.records("AttemptStarting")] == [
        ("low", 1),
        ("low", 2),
    ]
    bench.wait_for(lambda: len(broker.dead_letters()) == 1)
    assert ready_in(broker, HIGH) == 0


def test_a_stop_hands_back_to_the_queue_of_the_batch(bench: Bench, broker: MachineBroker) -> None:
    broker.push_job("a", "gated")
    broker.push_job("b")
    broker.push_job("c", partition="p-0001")
    pid = bench.start(**SEVERAL, prefetch=4)
    bench.wait_for_records("AttemptStarting", 1)
    os.kill(pid, signal.SIGTERM)
    bench.gate.open()
    assert bench.wait_exit(pid) == 0
    assert sorted(broker.pop_all()) == [("b", 1), ("c", 1)]
    assert list(bench.states.iterdir()) == []


def test_empty_queues_are_asked_in_turns_with_pauses_even_without_a_sleep(
    bench: Bench, broker: MachineBroker
) -> None:
    bench.start(**{**SEVERAL, "sleep_s": 0.0})
    bench.wait_for(lambda: len(pops(broker)) >= 10)
    asked = pops(broker)[:10]
    assert [queue for queue, _ in asked] == list(BOTH) * 5
    rounds = [one.t_ns for queue, one in asked if queue == HIGH]
    gaps_s = [(later - earlier) / 1e9 for earlier, later in itertools.pairwise(rounds)]
    assert min(gaps_s) > IDLE_S_MIN * 0.9, gaps_s


def test_a_worker_that_may_wait_waits_at_the_first_queue(
    bench: Bench, broker: MachineBroker
) -> None:
    bench.start(**{**SEVERAL, "block_for_s": 20.0, "sleep_s": 30.0})
    bench.wait_for(lambda: len(pops(broker)) == 3)
    assert [(queue, "wait=true" in asked.target) for queue, asked in pops(broker)] == [
        (HIGH, False),
        (QUEUE, False),
        (HIGH, True),
    ]
    push_high(broker, "now")
    assert bench.wait_for_records("AttemptAcked", 1)[0]["job_id"] == "now"


def test_nothing_is_asked_for_ahead_with_several_queues(
    bench: Bench, broker: MachineBroker
) -> None:
    for name in ("a", "b"):
        broker.push_job(name, "gated")
    bench.start(**SEVERAL, prefetch=1, pop_ahead=True)
    bench.wait_for_records("AttemptStarting", 1)
    before = len(pops(broker))
    assert [queue for queue, _ in pops(broker)] == list(BOTH) * (before // 2)
    bench.gate.open(2)
    bench.wait_for_records("AttemptAcked", 2)
    assert [queue for queue, _ in pops(broker)][: before + 1] == [*list(BOTH) * (before // 2), HIGH]


def test_a_pop_whose_answer_is_lost_is_repeated_and_its_claim_is_of_its_own_queue(
    bench: Bench, broker: MachineBroker
) -> None:
    lost: list[str] = []

    def lose(asked: Asked) -> Fault | None:
        if asked.kind == "pop" and QUEUE in asked.target.split("?")[0].split("/") and not lost:
            lost.append(asked.request_id)
            return Fault.LOSE_ANSWER
        return None

    broker.push_job("a", "throws", data="x", tries=2)
    broker.fault = lose
    bench.start(**SEVERAL, backoff_s=(0.0,))
    bench.wait_for_records("JobGaveUp", 1)
    starts = [(r["job_id"], r["attempt"]) for r in bench.records("AttemptStarting")]
    assert (starts, len(lost)) == ([("a", 1), ("a", 2)], 1)
    assert ready_in(broker, HIGH) == 0


def test_what_nobody_read_goes_back_to_the_queue_that_its_claim_names(
    bench: Bench, broker: MachineBroker
) -> None:
    bench.changes.update(SEVERAL)
    settings = bench.settings()
    client = SyncClient([broker.endpoint])
    broker.push_job("a")
    name = "0123456789abcdef" * 2
    call = pop(QUEUE, group=GROUP, batch=4, partitions=16, lease_s=round(LEASE_S))
    claimed: Popped = client.call(call, request_id=name).value
    again = client.call(unread_call(settings, name), request_id=name).value
    assert again.lease_id == claimed.lease_id
    assert unread_debt(settings, again, 1).plan.queue == QUEUE
    client.close()


@pytest.mark.parametrize("queues", [(QUEUE, HIGH), (HIGH, HIGH), (HIGH, "")])
def test_queues_that_cannot_be_are_refused(queues: tuple[str, ...]) -> None:
    settings = WorkerSettings(queue=HIGH, endpoints=(("127.0.0.1", 1),), state_dir="/s")
    with pytest.raises(SettingError, match="queues"):
        msgspec.structs.replace(settings, queues=queues)
