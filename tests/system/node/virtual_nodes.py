"""Nodes in one process, on trio's virtual time, with memory streams and a pretended disk."""

from __future__ import annotations

import json
import random
from collections.abc import Awaitable, Callable
from typing import Any

import trio
import trio.testing

from atleastonce.system.broker.queries import Fetch, FetchEntry
from atleastonce.system.broker.replies import FetchReply
from atleastonce.system.bugs import NO_BUGS, Bugs
from atleastonce.system.http.framing import Request
from atleastonce.system.http.routes import Answer
from atleastonce.system.http.server import Delivery
from atleastonce.system.node.clock import NodeClock
from atleastonce.system.node.clockfile import ClockMark
from atleastonce.system.node.config import Address
from atleastonce.system.node.counters import Counters
from atleastonce.system.node.gauge import Space
from atleastonce.system.node.limits import DEFAULT_LIMITS, NodeLimits
from atleastonce.system.node.logbook import Logbook
from atleastonce.system.node.node import Node, NodeSettings
from atleastonce.system.raft.core import RaftCore, RaftLog
from atleastonce.system.raft.events import Persist, RaftConfig
from atleastonce.system.raft.messages import Entry, HardState

TOKEN = b"a token of virtual nodes"
WALL_US = 1_700_000_000_000_000
SYNC_S = 0.002


class VirtualDisk:
    """What one node has made durable; survives the node."""

    def __init__(self) -> None:
        self.hard_state = HardState(0, None)
        self.entries: list[Entry] = []
        self.mark: ClockMark | None = None

    def write(self, persist: Persist) -> None:
        if persist.hard_state is not None:
            self.hard_state = persist.hard_state
        if persist.truncate_from is not None:
            del self.entries[persist.truncate_from - 1 :]
        self.entries.extend(persist.entries)


class HangingUp:
    """A client that stays until `gone` is set, and takes its answers in their turn."""

    def __init__(self) -> None:
        self.gone = trio.Event()

    async def wait_gone(self) -> None:
        await self.gone.wait()

    def answer_now(self, answer: Answer) -> bool:
        return False


class VirtualNode:
    """One node; `stop` kills it, and `start` makes it anew from its disk."""

    def __init__(self, cluster: VirtualCluster, name: str) -> None:
        self.name = name
        self.disk = VirtualDisk()
        self.lines: list[dict[str, Any]] = []
        self.is_up = False
        self.ended = trio.Event()
        self.counters = Counters()
        self.sync_s = SYNC_S
        self.space = Space(10, 90)
        self.wall_ahead_us = 0
        self._cluster = cluster
        self._persists_in, self._persists_out = trio.open_memory_channel[Persist](10_000)
        self._scope = trio.CancelScope()

    async def run(self, task_status: trio.TaskStatus[None]) -> None:
        """Run until stopped."""
        cluster = self._cluster
        clock = self._start_clock()
        peers = {name: (name, 1) for name in cluster.names if name != self.name}
        core = RaftCore(
            RaftConfig(node_id=self.name, voters=tuple(cluster.names)),
            self.disk.hard_state,
            RaftLog(list(self.disk.entries)),
            random.Random(f"{cluster.seed} {self.name}").randint,
            clock.now_us(),
            cluster.bugs,
        )
        settings = NodeSettings(
            self.name, peers, TOKEN, 5000, "test", cluster.bugs, limits=cluster.limits
        )
        logbook = Logbook(lambda line: self.lines.append(json.loads(line)), self.name)
        self.counters = Counters()
        self._persists_in, self._persists_out = trio.open_memory_channel[Persist](10_000)
        self.node = Node(
            settings,
            core,
            clock,
            self._persists_in.send_nowait,
            logbook,
            self.counters,
            self._dial,
            lambda: self.space,
        )
        self.ended = trio.Event()
        self._scope = trio.CancelScope()
        with self._scope:
            async with trio.open_nursery() as nursery:
                self._nursery = nursery
                self.is_up = True
                nursery.start_soon(self._sync)
                nursery.start_soon(self.node.run)
                task_status.started()
        self.is_up = False
        self.ended.set()

    def wall_us(self) -> int:
        """This node's time of day."""
        return WALL_US + int(trio.current_time() * 1_000_000) + self.wall_ahead_us

    def _start_clock(self) -> NodeClock:
        mark = self.disk.mark
        if mark is None:
            return NodeClock(self.wall_us(), self.wall_us, is_guess=True)
        boottime_us = int(trio.current_time() * 1_000_000)
        return NodeClock(mark.resumed_us("boot", boottime_us, self.wall_us()), self.wall_us)

    def note_clock(self) -> None:
        """Save the broker's time, as a node does every few seconds."""
        boottime_us = int(trio.current_time() * 1_000_000)
        self.disk.mark = ClockMark(
            boot="boot",
            boottime_us=boottime_us,
            wall_us=self.wall_us(),
            broker_us=self.node.desk.stamp_us(),
        )

    async def _sync(self) -> None:
        while True:
            batch = [await self._persists_out.receive()]
            await trio.sleep(self.sync_s)
            with self._persists_out.clone() as more:
                while more.statistics().current_buffer_used:
                    batch.append(more.receive_nowait())
            for persist in batch:
                self.disk.write(persist)
            self.node.driver.durable(batch[-1].sequence)

    async def _dial(self, address: Address) -> trio.abc.Stream:
        return await self._cluster.connect(self.name, address[0])

    def accept(self, stream: trio.abc.Stream) -> None:
        """Serve a connection of a peer."""
        self._nursery.start_soon(self.node.gate.serve, stream)

    def stop(self) -> None:
        """Die at once."""
        self.is_up = False
        self._scope.cancel()

    async def call(
        self,
        method: str,
        target: str,
        body: object = None,
        headers: dict[str, str] | None = None,
        client: HangingUp | None = None,
    ) -> Delivery:
        """Have one request answered as if it came from this node's own client."""
        data = b"" if body is None else json.dumps(body).encode()
        request = Request(method, target, headers or {}, data, keep_alive=True)
        return await self.node.service.handle(request, client or HangingUp())

    async def push(self, queue: str, *names: str, **headers: str) -> tuple[int, Any]:
        """Push one message for each name."""
        items = [
            {"queue": queue, "partition": "p", "transactionId": name, "payload": name}
            for name in names
        ]
        return read(await self.call("POST", "/api/v1/push", {"items": items}, headers))

    async def pop(
        self, queue: str, client: HangingUp | None = None, **parameters: object
    ) -> tuple[int, Any]:
        """Pop; parameters as in the URL."""
        query = "&".join(f"{name}={value}" for name, value in parameters.items())
        target = f"/api/v1/pop/queue/{queue}?{query}"
        return read(await self.call("GET", target, client=client))


def read(delivery: Delivery) -> tuple[int, Any]:
    """An answer's status and decoded body."""
    answer = delivery.answer
    return answer.status, json.loads(answer.body) if answer.body else None


class Ear(trio.abc.Stream):
    """A stream whose owner hears nothing while it is deaf; bytes on their way are lost."""

    def __init__(self, stream: trio.abc.Stream, owner: str, deaf: set[str]) -> None:
        self._stream = stream
        self._owner = owner
        self._deaf = deaf

    async def receive_some(self, max_bytes: int | None = None) -> bytes | bytearray:
        while True:
            data = await self._stream.receive_some(max_bytes)
            if not data or self._owner not in self._deaf:
                return data

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        await self._stream.send_all(data)

    async def wait_send_all_might_not_block(self) -> None:
        await self._stream.wait_send_all_might_not_block()

    async def aclose(self) -> None:
        await self._stream.aclose()


class VirtualCluster:
    """Nodes that reach each other unless cut apart."""

    def __init__(
        self,
        size: int,
        nursery: trio.Nursery,
        bugs: Bugs = NO_BUGS,
        seed: int = 1,
        limits: NodeLimits = DEFAULT_LIMITS,
    ) -> None:
        self.names = [f"n{number}" for number in range(1, size + 1)]
        self.bugs = bugs
        self.seed = seed
        self.limits = limits
        self.deaf: set[str] = set()
        self._nursery = nursery
        self._cut: set[frozenset[str]] = set()
        self._streams: list[tuple[frozenset[str], trio.StapledStream[Any, Any]]] = []
        self.nodes = {name: VirtualNode(self, name) for name in self.names}

    async def start(self, *names: str) -> None:
        """Start nodes; all of them when none is named."""
        for name in names or self.names:
            await self._nursery.start(self.nodes[name].run)

    async def connect(self, source: str, target: str) -> trio.abc.Stream:
        await trio.lowlevel.checkpoint()
        pair = frozenset({source, target})
        if pair in self._cut or not self.nodes[target].is_up:
            raise OSError(f"{target} is not reachable")
        left, right = trio.testing.memory_stream_pair()
        self._streams += [(pair, left), (pair, right)]
        self.nodes[target].accept(Ear(right, target, self.deaf))
        return Ear(left, source, self.deaf)

    def cut_off(self, name: str) -> None:
        """Cut one node's connections to all others; bytes on their way are lost."""
        for other in self.names:
            if other != name:
                self._cut.add(frozenset({name, other}))
        for pair, stream in self._streams:
            if pair in self._cut:
                stream.receive_stream.put_eof()

    def heal(self) -> None:
        """Let all nodes reach each other again."""
        self._cut.clear()

    async def leader(self) -> VirtualNode:
        """Wait for the node that serves as leader."""
        with trio.fail_after(30):
            while True:
                for node in self.nodes.values():
                    if node.is_up and node.node.leadership.is_serving:
                        return node
                await trio.sleep(0.01)

    async def followers(self) -> list[VirtualNode]:
        """The others that run."""
        leader = await self.leader()
        return [node for node in self.nodes.values() if node.is_up and node is not leader]


def stored(node: VirtualNode, queue: str) -> list[Any]:
    """The payloads of a queue's partition p, as one node's machine has them."""
    query = Fetch((FetchEntry(queue, "p", 0),))
    reply = node.node.machine.read(query, node.node.desk.stamp_us())
    assert isinstance(reply, FetchReply)
    return [record.payload.decode().strip('"') for record in reply.entries[0].records]


async def until_agreed(cluster: VirtualCluster) -> None:
    """Wait until all running nodes have applied the same log."""
    with trio.fail_after(20):
        while True:
            running = [node.node for node in cluster.nodes.values() if node.is_up]
            if len({(n.applier.applied_index, n.machine.digest()) for n in running}) == 1:
                return
            await trio.sleep(0.05)


def run_virtual(
    scenario: Callable[[VirtualCluster], Awaitable[None]],
    size: int = 3,
    bugs: Bugs = NO_BUGS,
    seed: int = 1,
    limits: NodeLimits = DEFAULT_LIMITS,
    walls_ahead_s: tuple[float, ...] = (),
) -> None:
    """Start a cluster on virtual time, run a scenario with it, and end it.

    `walls_ahead_s` is by how much each node's time of day is wrong.
    """

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            cluster = VirtualCluster(size, nursery, bugs, seed, limits)
            for node, ahead_s in zip(cluster.nodes.values(), walls_ahead_s, strict=False):
                node.wall_ahead_us = int(ahead_s * 1_000_000)
            await cluster.start()
            await scenario(cluster)
            nursery.cancel_scope.cancel()

    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))
