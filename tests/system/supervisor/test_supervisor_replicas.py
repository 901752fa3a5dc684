"""Replicas as processes on a real broker node: their views meet, and their shares add up."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import pytest
import trio

from atleastonce.system.client import Answer, AsyncClient, Call, ClientOptions, Endpoint
from atleastonce.system.supervisor.core.coordination import SCOPE_MEMBERS_MAX, share
from atleastonce.system.supervisor.logbook import Logbook
from atleastonce.system.supervisor.replicas import NAMESPACE, PREFIX, Replicas, ReplicaSettings

from ..node.node_cluster import Client, Cluster
from .supervised import wait_for

pytestmark = pytest.mark.cluster

T = TypeVar("T")
TTL_S = 2
POLL_S = 0.1
TARGET = 13
SAMPLES = 30
_PROGRAM = Path(__file__).resolve().parent / "replica_process.py"


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    """A real node."""
    made = Cluster(tmp_path, 1)
    try:
        made.start()
        yield made
    finally:
        made.end()


@dataclass
class Fleet:
    """Replicas as processes, in the order in which they were started."""

    folder: Path
    port: int
    processes: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def start(self) -> int:
        number = len(self.processes)
        arguments = [str(self.port), str(TTL_S), str(POLL_S), str(TARGET), str(self.file(number))]
        with open(self.folder / "replicas.log", "ab") as log:
            process = subprocess.Popen(
                [sys.executable, str(_PROGRAM), *arguments],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self.processes.append(process)
        return number

    def file(self, number: int) -> Path:
        return self.folder / f"replica-{number}.jsonl"

    def lines(self, number: int) -> list[dict[str, Any]]:
        path = self.file(number)
        text = path.read_bytes() if path.exists() else b""
        return [json.loads(line) for line in text.splitlines(keepends=True) if line[-1:] == b"\n"]

    def next_lines(self, numbers: Sequence[int]) -> list[dict[str, Any]]:
        """One line of each of these replicas, written from now on."""
        seen = [len(self.lines(number)) for number in numbers]

        def look() -> list[dict[str, Any]]:
            pairs = [
                (self.lines(number), count) for number, count in zip(numbers, seen, strict=True)
            ]
            return [lines[-1] for lines, count in pairs if len(lines) > count]

        wait_for(lambda: len(look()) == len(numbers), f"a poll of replicas {numbers}")
        return look()

    def send(self, number: int, signal_number: signal.Signals) -> None:
        os.kill(self.processes[number].pid, signal_number)

    def end(self) -> None:
        for process in self.processes:
            process.kill()
            process.wait(15)


@pytest.fixture
def fleet(tmp_path: Path, cluster: Cluster) -> Iterator[Fleet]:
    made = Fleet(tmp_path, cluster.nodes["n1"].port)
    yield made
    made.end()


def wait_for_views(fleet: Fleet, numbers: Sequence[int]) -> None:
    """Wait until these replicas see each other and nobody else."""

    def agree() -> bool:
        last = [fleet.lines(number)[-1:] for number in numbers]
        names = sorted(line[0]["instance"] for line in last if line)
        return len(names) == len(numbers) and all(line[0]["members"] == names for line in last)

    wait_for(agree, f"equal views of {numbers}")


def assert_adds_up(fleet: Fleet, numbers: Sequence[int]) -> None:
    """In each of 30 samples, with a poll of every replica between two, the shares add up."""
    for _ in range(SAMPLES):
        assert sum(line["share"] for line in fleet.next_lines(numbers)) == TARGET


def test_three_replicas_shares_add_up_and_a_killed_ones_is_taken_over_after_its_ttl(
    fleet: Fleet,
) -> None:
    for _ in range(3):
        fleet.start()
    wait_for_views(fleet, [0, 1, 2])
    assert_adds_up(fleet, [0, 1, 2])
    fleet.send(1, signal.SIGKILL)
    fleet.processes[1].wait(15)
    *_, before_last_beat, last = fleet.lines(1)
    wait_for_views(fleet, [0, 2])
    for number in (0, 2):
        seen = [line["t_ns"] for line in fleet.lines(number) if last["instance"] in line["members"]]
        first_without_ns = next(
            line["t_ns"] for line in fleet.lines(number) if line["t_ns"] > seen[-1]
        )
        # The broker's clock may be fast by one part in two hundred.
        assert first_without_ns - before_last_beat["t_ns"] > TTL_S * 995_000_000
    assert_adds_up(fleet, [0, 2])


def test_in_a_rolling_restart_a_share_that_leaves_is_taken_over_before_its_ttl(
    fleet: Fleet,
) -> None:
    running = [fleet.start() for _ in range(3)]
    wait_for_views(fleet, running)
    for old in list(running):
        fleet.send(old, signal.SIGTERM)
        assert fleet.processes[old].wait(15) == 0
        running.remove(old)
        gone = fleet.lines(old)[-1]["instance"]
        # A poll that had begun before may still list it; the next one does not.
        fleet.next_lines(running)
        assert all(gone not in line["members"] for line in fleet.next_lines(running))
        running.append(fleet.start())
        wait_for_views(fleet, running)
    assert_adds_up(fleet, running)


def test_without_the_broker_each_keeps_its_view_and_then_runs_the_whole_target(
    fleet: Fleet, cluster: Cluster
) -> None:
    for _ in range(3):
        fleet.start()
    wait_for_views(fleet, [0, 1, 2])
    cluster.nodes["n1"].kill()
    down_ns = time.monotonic_ns()
    for number in range(3):
        wait_for(
            lambda n=number: fleet.lines(n)[-1]["share"] == TARGET,  # type: ignore[misc]
            f"replica {number} to count on itself alone",
        )
    changes: list[tuple[int, int, int]] = []
    for number in range(3):
        # A view that is a second old is kept; its life is two.
        shares = [(line["t_ns"], line["share"]) for line in fleet.lines(number)]
        assert [value for t_ns, value in shares if down_ns < t_ns < down_ns + 1_000_000_000][
            -1
        ] < 13
        changes += [(t_ns, number, value) for t_ns, value in shares if t_ns > down_ns]
    now = dict.fromkeys(range(3), TARGET)
    for number in range(3):
        now[number] = [ln["share"] for ln in fleet.lines(number) if ln["t_ns"] <= down_ns][-1]
    for _, number, value in sorted(changes):
        now[number] = value
        assert sum(now.values()) >= TARGET
    cluster.nodes["n1"].start()
    wait_for_views(fleet, [0, 1, 2])
    assert_adds_up(fleet, [0, 1, 2])


class CountingClient(AsyncClient):
    """Counts the operations of every call."""

    def __init__(self, port: int) -> None:
        super().__init__([Endpoint("127.0.0.1", port)], ClientOptions(try_timeout_s=5.0))
        self.sizes: list[int] = []

    async def call(self, call: Call[T], **rest: Any) -> Answer[T]:
        self.sizes.append(len(json.loads(call.body)["operations"]))
        return await super().call(call, **rest)


def on(cluster: Cluster, go: Callable[[CountingClient], Any]) -> None:
    async def within() -> None:
        client = CountingClient(cluster.nodes["n1"].port)
        try:
            await go(client)
        finally:
            await client.aclose()

    trio.run(within)


def keys(client: Client) -> list[str]:
    listing = {"op": "getPrefix", "ns": NAMESPACE, "prefix": f"{PREFIX}/"}
    _, body = client.call("POST", "/api/v1/kv", {"operations": [listing]})
    return [row["key"] for row in body["results"][0]["rows"]]


def make(client: AsyncClient, scopes: Sequence[str], instance: str) -> Replicas:
    settings = ReplicaSettings(60_000_000, 10.0)
    return Replicas(client, scopes, settings, Logbook("master"), instance)


def test_nine_scopes_are_three_calls_and_leaving_removes_every_key(cluster: Cluster) -> None:
    seen = cluster.nodes["n1"].client()
    scopes = [f"{n:016x}" for n in range(9)]

    async def go(client: CountingClient) -> None:
        replicas = make(client, scopes, "a")
        assert [replicas.view(scope) for scope in scopes] == [None] * 9
        assert await replicas.heartbeat()
        assert client.sizes == [8, 8, 2]
        assert keys(seen) == [f"{PREFIX}/{scope}/a" for scope in scopes]
        assert all((view := replicas.view(scope)) and view.is_alone for scope in scopes)
        assert await replicas.leave()
        assert keys(seen) == []
        assert [replicas.view(scope) for scope in scopes] == [None] * 9

    on(cluster, go)
    seen.hang_up()


def test_a_replica_is_out_of_the_scopes_that_it_stays_away_from_until_it_comes_back(
    cluster: Cluster,
) -> None:
    seen = cluster.nodes["n1"].client()

    async def go(client: CountingClient) -> None:
        one, other = make(client, ["s", "t"], "a"), make(client, ["s", "t"], "b")
        for replicas in (one, other, one):
            assert await replicas.heartbeat()
        one.absent = {"s"}
        assert await one.heartbeat()
        assert await other.heartbeat()
        assert keys(seen) == [f"{PREFIX}/s/b", f"{PREFIX}/t/a", f"{PREFIX}/t/b"]
        views = [one.view("s"), one.view("t"), other.view("s")]
        assert [view and view.members for view in views] == [None, ("a", "b"), ("b",)]
        one.absent = set()
        assert await one.heartbeat()
        assert (view := one.view("s")) is not None
        assert view.members == ("a", "b")

    on(cluster, go)
    seen.hang_up()


def test_of_a_hundred_and_one_replicas_one_is_in_reserve_and_the_shares_add_up(
    cluster: Cluster,
) -> None:
    async def go(client: CountingClient) -> None:
        fleet = [make(client, ["s"], f"{n:03}") for n in range(SCOPE_MEMBERS_MAX + 1)]
        for _ in range(2):
            for replicas in fleet:
                assert await replicas.heartbeat()
        views = [view for replicas in fleet if (view := replicas.view("s")) is not None]
        assert sum(share(250, 0, view) for view in views) == 250
        assert [view.own for view in views if view.position is None] == ["100"]

    on(cluster, go)


def test_a_heartbeat_without_an_answer_makes_a_new_replica_count_on_itself(
    cluster: Cluster,
) -> None:
    async def go(client: CountingClient) -> None:
        replicas = Replicas(client, ["s"], ReplicaSettings(60_000_000, 0.2), Logbook("master"))
        cluster.nodes["n1"].kill()
        assert not await replicas.heartbeat()
        view = replicas.view("s")
        assert view is not None
        assert view.is_alone
        assert not await replicas.leave()

    on(cluster, go)
