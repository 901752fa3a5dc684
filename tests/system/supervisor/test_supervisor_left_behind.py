"""On a real broker node: what dead masters, unread answers and failed stops leave goes back."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
import trio

from atleastonce.system.client import AsyncClient, Depth, Endpoint
from atleastonce.system.jobs.journal import JournalWriter
from atleastonce.system.supervisor.statedir import StateDirectory

from ..jobs.machine_broker import QUEUE as MACHINE_QUEUE
from ..jobs.machine_broker import Asked, Fault, MachineBroker
from ..node.node_cluster import Cluster
from .scripted_broker import ScriptedBroker
from .supervised import Supervised, is_alive, wait_for

pytestmark = pytest.mark.cluster

QUEUE = "jobs"
LEASE_S = 30.0
POP = "0123456789abcdef" * 2


@pytest.fixture
def on_node(tmp_path: Path) -> Iterator[Supervised]:
    """A supervisor of one worker that is not started yet, on a real node; leases of 30 s."""
    cluster = Cluster(tmp_path, 1)
    made = Supervised(tmp_path, cluster.nodes["n1"].port)
    made.config["workers"] = 1
    made.config["worker"].update(ack_async=True, partitions=16, retry_after_s=LEASE_S)
    try:
        cluster.start()
        yield made
    finally:
        made.end()
        cluster.end()


def push(on_node: Supervised, job: str, name: str, partition: str, gate: Path) -> None:
    body = {"job": job, "id": name, "partition": partition, "data": {"file": str(gate)}}
    item = {
        "queue": QUEUE,
        "partition": partition,
        "transactionId": name,
        "payload": {"_job": body},
    }

    async def go() -> None:
        client = AsyncClient([Endpoint("127.0.0.1", on_node.port)])
        await client.push([item])
        await client.aclose()

    trio.run(go)


def depth(on_node: Supervised) -> Depth:
    async def go() -> Depth:
        client = AsyncClient([Endpoint("127.0.0.1", on_node.port)])
        answer = await client.depth(QUEUE, "jobs")
        await client.aclose()
        return answer.value

    return trio.run(go)


def kill_master(on_node: Supervised) -> None:
    assert on_node.process is not None
    on_node.status()
    on_node.process.kill()
    on_node.process.wait(15)
    wait_for(lambda: not any(is_alive(pid) for pid in on_node.pids - {None}), "their end")


def starts(on_node: Supervised) -> list[tuple[str, str]]:
    return sorted((note[2], note[3]) for note in on_node.notes("started"))


def run_beside_an_unread_batch(on_node: Supervised, gate: Path) -> int:
    """Have a worker run `a` while the claim of `b` that it asked for ahead is unread."""
    on_node.config["worker"].update(prefetch=1, pop_ahead=True)
    push(on_node, "until_file", "a", "p-0001", gate)
    push(on_node, "quick", "b", "p-0002", gate)
    on_node.start()
    wait_for(lambda: "a" in on_node.running(), f"job a\n{on_node.log()}")
    wait_for(lambda: depth(on_node).processing == 2, "the claim of b")
    return on_node.running()["a"]


def test_what_a_dead_masters_worker_held_goes_back_uncharged_under_the_next_master(
    on_node: Supervised,
) -> None:
    gate = on_node.root / "gate"
    for name in "abcd":
        push(on_node, "until_file", name, "p-0003", gate)
    on_node.start()
    wait_for(lambda: "a" in on_node.running(), f"job a\n{on_node.log()}")
    pid = on_node.running()["a"]
    kill_master(on_node)
    gate.touch()
    on_node.start()
    wait_for(lambda: len(on_node.notes("done")) == 4, f"the jobs\n{on_node.log()}")
    (line,) = on_node.lines("handbacks.jsonl")
    assert (line["result"], line["pid"]) == ("sent", pid)
    assert (line["unstarted"], line["ran"]) == (["b", "c", "d"], ["a"])
    assert starts(on_node) == [("a", "1"), ("a", "2"), ("b", "1"), ("c", "1"), ("d", "1")]
    assert on_node.stop() == 0
    assert depth(on_node).pending == 0


def test_an_unread_batch_of_a_killed_worker_goes_back_uncharged(on_node: Supervised) -> None:
    gate = on_node.root / "gate"
    pid = run_beside_an_unread_batch(on_node, gate)
    os.kill(pid, signal.SIGKILL)
    wait_for(lambda: on_node.notes("done"), f"job b\n{on_node.log()}")
    (death,) = on_node.lines("deaths.jsonl")
    assert death["popping"]
    lines = on_node.lines("handbacks.jsonl")
    assert [(ln["result"], ln["unstarted"]) for ln in lines if ln["unstarted"]] == [("sent", ["b"])]
    assert starts(on_node) == [("a", "1"), ("b", "1")]


def test_an_unread_batch_goes_back_uncharged_when_the_master_died_too(on_node: Supervised) -> None:
    gate = on_node.root / "gate"
    run_beside_an_unread_batch(on_node, gate)
    kill_master(on_node)
    on_node.start()
    wait_for(lambda: on_node.notes("done"), f"job b\n{on_node.log()}")
    lines = on_node.lines("handbacks.jsonl")
    assert [(ln["result"], ln["unstarted"]) for ln in lines] == [("sent", ["b"])]
    assert starts(on_node) == [("a", "1"), ("b", "1")]


def test_a_stop_after_an_unread_batch_hands_it_back_itself(on_node: Supervised) -> None:
    gate = on_node.root / "gate"
    run_beside_an_unread_batch(on_node, gate)
    assert on_node.process is not None
    on_node.process.send_signal(signal.SIGTERM)
    wait_for(lambda: on_node.status()["state"] == "terminating", "the stop")
    gate.touch()
    assert on_node.process.wait(15) == 0
    assert depth(on_node).ready == 1
    on_node.start()
    wait_for(lambda: len(on_node.notes("done")) == 2, f"job b\n{on_node.log()}")
    assert starts(on_node) == [("a", "1"), ("b", "1")]


def test_what_a_stopping_worker_could_not_hand_back_the_master_hands_back(
    supervised: Supervised, broker: ScriptedBroker
) -> None:
    gate = supervised.root / "gate"
    supervised.config["workers"] = 1
    supervised.config["worker"]["settle_timeout_s"] = 0.3
    broker.swallows = lambda word, body: (
        word == "/transaction" and len(broker.requests("/transaction")) == 1
    )
    for name in "abc":
        broker.push("until_file", name, file=str(gate))
    supervised.start()
    wait_for(lambda: "a" in supervised.running(), f"job a\n{supervised.log()}")
    os.kill(supervised.running()["a"], signal.SIGTERM)
    gate.touch()
    wait_for(lambda: len(supervised.notes("done")) == 3, f"the jobs\n{supervised.log()}")
    (line,) = supervised.lines("handbacks.jsonl")
    assert (line["result"], line["unstarted"], line["ran"]) == ("sent", ["b", "c"], [])
    assert starts(supervised) == [("a", "1"), ("b", "1"), ("c", "1")]


def test_what_a_dead_fork_servers_worker_held_goes_back_uncharged(on_node: Supervised) -> None:
    gate = on_node.root / "gate"
    for name in "abc":
        push(on_node, "until_file", name, "p-0003", gate)
    on_node.start()
    wait_for(lambda: "a" in on_node.running(), f"job a\n{on_node.log()}")
    pid = on_node.running()["a"]
    os.kill(on_node.status()["fork_server"], signal.SIGKILL)
    wait_for(lambda: not is_alive(pid), "the end of its worker")
    gate.touch()
    wait_for(lambda: len(on_node.notes("done")) == 3, f"the jobs\n{on_node.log()}")
    assert starts(on_node) == [("a", "1"), ("a", "2"), ("b", "1"), ("c", "1")]


def test_what_a_lost_host_held_comes_back_after_its_lease_and_is_charged(
    on_node: Supervised,
) -> None:
    on_node.config["worker"].update(retry_after_s=4.0, timeout_s=3.0)
    on_node.config["renewal"].update(timeout_s=0.3, grace_s=0.2, margin_s=0.2)
    gate = on_node.root / "gate"
    push(on_node, "until_file", "a", "p-0003", gate)
    push(on_node, "until_file", "b", "p-0003", gate)
    on_node.start()
    wait_for(lambda: "a" in on_node.running(), f"job a\n{on_node.log()}")
    kill_master(on_node)
    shutil.rmtree(on_node.state_dir)
    gate.touch()
    on_node.start()
    wait_for(lambda: len(on_node.notes("done")) == 2, f"the jobs\n{on_node.log()}")
    assert on_node.lines("handbacks.jsonl") == []
    assert starts(on_node) == [("a", "1"), ("a", "2"), ("b", "2")]


def test_a_hand_back_whose_answer_is_lost_is_asked_again_under_its_id(tmp_path: Path) -> None:
    lost: list[str] = []

    def fault(asked: Asked) -> Fault | None:
        if asked.kind == "transaction" and not lost:
            lost.append(asked.request_id)
            return Fault.LOSE_ANSWER
        return None

    broker = MachineBroker()
    broker.fault = fault
    made = Supervised(tmp_path, broker.endpoint.port)
    made.config["workers"] = 1
    made.config["worker"].update(queue=MACHINE_QUEUE, retry_after_s=LEASE_S)
    gate = tmp_path / "gate"
    for name in "abc":
        broker.push_job(name, "until_file", data={"file": str(gate)})
    try:
        made.start()
        wait_for(lambda: "a" in made.running(), f"job a\n{made.log()}")
        os.kill(made.running()["a"], signal.SIGKILL)
        gate.touch()
        wait_for(lambda: len(made.notes("done")) == 3, f"the jobs\n{made.log()}")
        (line,) = wait_for(lambda: made.lines("handbacks.jsonl"), "the answer")
        assert (line["result"], line["unstarted"], line["ran"]) == ("sent", ["b", "c"], ["a"])
        asked = [seen.request_id for seen in broker.asked if seen.kind == "transaction"]
        assert asked == lost * 2
        assert starts(made) == [("a", "1"), ("a", "2"), ("b", "1"), ("c", "1")]
    finally:
        made.end()
        broker.close()


def test_journals_of_an_earlier_boot_of_the_host_are_not_believed(tmp_path: Path) -> None:
    directory = StateDirectory(tmp_path)
    directory.clear_workers()
    writer = JournalWriter(directory.workers, os.getpid())
    writer.set_pop(POP)
    directory.clear_workers()
    (journal,) = directory.left_journals().unsettled()
    assert (journal.pid, journal.debts.pop_id) == (os.getpid(), POP)
    writer = JournalWriter(directory.workers, os.getpid())
    writer.set_pop(POP)
    (directory.left / "boot").write_text("another")
    directory.clear_workers()
    assert directory.left_journals().unsettled() == []
    assert list(directory.workers.iterdir()) == []
