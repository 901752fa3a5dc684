"""The supervisor on a real broker node: hand-back and graceful stop, end to end."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
import trio

from atleastonce.system.client import AsyncClient, Depth, Endpoint

from .one_node import one_node
from .supervised import Supervised, wait_for

pytestmark = pytest.mark.cluster
PARTITION = "p-0003"


@pytest.fixture
def node_port(tmp_path: Path) -> Iterator[int]:
    """The client port of a cluster of one real node."""
    with one_node(tmp_path) as port:
        yield port


@pytest.fixture
def on_node(tmp_path: Path, node_port: int) -> Iterator[Supervised]:
    """A supervisor that is not started yet, on the real node."""
    made = Supervised(tmp_path, node_port)
    made.config["worker"].update(ack_async=True, pop_ahead=True, partitions=16)
    yield made
    made.end()


def push(port: int, job: str, names: str, file: Path) -> None:
    items = [
        {
            "queue": "jobs",
            "partition": PARTITION,
            "transactionId": name,
            "payload": {
                "_job": {
                    "job": job,
                    "id": name,
                    "partition": PARTITION,
                    "data": {"file": str(file)},
                }
            },
        }
        for name in names
    ]

    async def go() -> None:
        client = AsyncClient([Endpoint("127.0.0.1", port)])
        answer = await client.push(items)
        assert all(result.status == "queued" for result in answer.value)
        await client.aclose()

    trio.run(go)


def depth(port: int) -> Depth:
    async def go() -> Depth:
        client = AsyncClient([Endpoint("127.0.0.1", port)])
        answer = await client.depth("jobs", "jobs")
        await client.aclose()
        return answer.value

    return trio.run(go)


def test_a_killed_workers_unstarted_jobs_run_again_as_first_attempts_within_a_second(
    on_node: Supervised, node_port: int
) -> None:
    gate = on_node.root / "gate"
    push(node_port, "until_file", "abcd", gate)
    on_node.start()
    wait_for(lambda: "a" in on_node.running(), f"job a\n{on_node.log()}")
    pid = on_node.running()["a"]
    os.kill(pid, signal.SIGSTOP)
    gate.touch()
    os.kill(pid, signal.SIGKILL)
    wait_for(lambda: len(on_node.notes("done")) >= 4, f"the jobs\n{on_node.log()}")
    (death,) = on_node.lines("deaths.jsonl")
    (line,) = on_node.lines("handbacks.jsonl")
    assert (line["result"], line["unstarted"], line["ran"]) == ("sent", ["b", "c", "d"], ["a"])
    starts = [(note[2], note[3]) for note in on_node.notes("started")]
    assert starts == [("a", "1"), ("a", "2"), ("b", "1"), ("c", "1"), ("d", "1")]
    last_us = int(on_node.notes("started")[-1][0]) - death["t_ns"]
    assert last_us < 1_000_000_000
    assert on_node.stop() == 0
    assert depth(node_port).pending == 0


def test_jobs_of_a_killed_worker_whose_acks_waited_do_not_run_again(
    on_node: Supervised, node_port: int
) -> None:
    on_node.config["worker"].update(ack_async=False, ack_batch=4, prefetch=4)
    gate = on_node.root / "gate"
    push(node_port, "quick", "ab", gate)
    push(node_port, "until_file", "cd", gate)
    on_node.start()
    wait_for(lambda: "c" in on_node.running(), f"job c\n{on_node.log()}")
    assert depth(node_port).pending == 4
    os.kill(on_node.running()["c"], signal.SIGKILL)
    gate.touch()
    wait_for(lambda: len(on_node.notes("done")) >= 4, f"the jobs\n{on_node.log()}")
    (line,) = on_node.lines("handbacks.jsonl")
    assert (line["result"], line["unstarted"], line["ran"]) == ("sent", ["d"], ["c"])
    starts = [(note[2], note[3]) for note in on_node.notes("started")]
    assert starts == [("a", "1"), ("b", "1"), ("c", "1"), ("c", "2"), ("d", "1")]
    assert on_node.stop() == 0
    assert depth(node_port).pending == 0


def test_a_pause_and_a_restart_charge_nobody(on_node: Supervised, node_port: int) -> None:
    gate = on_node.root / "gate"
    on_node.allow_long_jobs()
    push(node_port, "until_file", "abcd", gate)
    on_node.start()
    wait_for(lambda: "a" in on_node.running(), f"job a\n{on_node.log()}")
    assert on_node.asked("pause")["accepted"]
    assert on_node.asked("restart")["accepted"]
    gate.touch()
    wait_for(lambda: on_node.status()["state"] == "paused", "the pause")
    assert depth(node_port).ready == 3
    wait_for(lambda: on_node.status()["code"] == 2, "the new code")
    assert on_node.asked("continue")["accepted"]
    wait_for(lambda: len(on_node.notes("done")) == 4, f"the rest\n{on_node.log()}")
    starts = [(note[2], note[3]) for note in on_node.notes("started")]
    assert starts == [("a", "1"), ("b", "1"), ("c", "1"), ("d", "1")]
    wait_for(lambda: {worker["code"] for worker in on_node.workers()} == {2}, "the new code alone")
    assert on_node.stop() == 0
    assert depth(node_port).pending == 0


def test_jobs_handed_back_by_a_graceful_stop_run_as_first_attempts_later(
    on_node: Supervised, node_port: int
) -> None:
    gate = on_node.root / "gate"
    push(node_port, "until_file", "abcd", gate)
    on_node.start()
    wait_for(lambda: "a" in on_node.running(), f"job a\n{on_node.log()}")
    assert on_node.process is not None
    on_node.process.send_signal(signal.SIGTERM)
    wait_for(lambda: on_node.status()["state"] == "terminating", "the stop")
    gate.touch()
    assert on_node.process.wait(15) == 0
    assert depth(node_port).ready == 3
    on_node.start()
    wait_for(lambda: len(on_node.notes("done")) == 4, "the rest")
    starts = [(note[2], note[3]) for note in on_node.notes("started")]
    assert starts == [("a", "1"), ("b", "1"), ("c", "1"), ("d", "1")]
    assert on_node.stop() == 0
