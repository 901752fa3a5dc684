"""What the cluster looks like from outside: each node's `/health`, and the supervisor's status."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec
import trio

from ..nemesis.world import NodeState
from ..system.client import AsyncClient, BrokerError, Call, ClientOptions, Endpoint, Health
from ..system.client.calls import health
from ..system.client.wire import Response
from ..system.supervisor.records import Status
from .live import NodeRow

HEALTH_TIMEOUT_S: Final = 0.5
_PAUSE_S: Final = 0.5


class _Metrics(msgspec.Struct):
    time_of_day_us: int = msgspec.field(name="timeOfDayUs")


def _read_time_of_day(response: Response) -> int:
    try:
        return msgspec.json.decode(response.body, type=_Metrics).time_of_day_us
    except msgspec.MsgspecError as error:
        raise BrokerError(response.status, "malformed", str(error), definite=True) from None


TIME_OF_DAY: Final = Call("metrics", "GET", "/metrics", b"", _read_time_of_day)


@dataclass(frozen=True, slots=True)
class NodeView:
    """One node's last answer.

    Attributes:
        health: What it said; None if it was silent.
        error: Why it was silent.
    """

    health: Health | None = None
    error: str = "not asked yet"

    @property
    def state(self) -> NodeState:
        """What it said, as the nemesis takes it."""
        if self.health is None:
            return NodeState()
        raft = self.health.raft
        return NodeState(raft.role, raft.term, raft.lag, raft.applied, self.is_healthy)

    @property
    def is_healthy(self) -> bool:
        """Whether it serves and knows a leader."""
        return self.health is not None and self.health.status == "healthy"


class NodeWatch:
    """Asks the nodes for their health, each over a connection of its own that is kept."""

    def __init__(self, endpoints: Mapping[str, Endpoint]) -> None:
        options = ClientOptions(HEALTH_TIMEOUT_S, HEALTH_TIMEOUT_S)
        self._clients = {name: AsyncClient((at,), options) for name, at in endpoints.items()}
        self.views = {name: NodeView() for name in endpoints}

    async def ask(self, node: str) -> NodeView:
        """Ask one node now; a node that does not answer in time is silent."""
        try:
            answer = await self._clients[node].call(health(), again=False)
        except BrokerError as error:
            view = NodeView(error=str(error))
        else:
            view = NodeView(health=answer.value, error="")
        self.views[node] = view
        return view

    async def ask_time_of_day(self, node: str) -> int | None:
        """Ask one node for its time of day, UTC microseconds; None if it does not answer."""
        try:
            return (await self._clients[node].call(TIME_OF_DAY, again=False)).value
        except BrokerError:
            return None

    async def ask_all(self) -> Mapping[str, NodeView]:
        """Ask all nodes at once; takes as long as the slowest."""
        async with trio.open_nursery() as nursery:
            for node in self._clients:
                nursery.start_soon(self.ask, node)
        return self.views

    async def run(self) -> None:
        """Keep `views` fresh for ever."""
        while True:
            await self.ask_all()
            await trio.sleep(_PAUSE_S)

    def leader(self) -> str | None:
        """Return the node that calls itself leader in the highest term, as last heard."""
        found: tuple[int, str] | None = None
        for name, view in self.views.items():
            if view.health is not None and view.health.raft.role == "leader":
                found = max(found or (-1, ""), (view.health.raft.term, name))
        return found[1] if found else None

    def row(self, node: str, is_alive: bool) -> NodeRow:
        """Describe a node for the live view."""
        if not is_alive:
            return NodeRow(node, "down")
        health_ = self.views[node].health
        if health_ is None:
            return NodeRow(node, "silent")
        raft = health_.raft
        return NodeRow(node, raft.role or health_.status, raft.term, raft.commit, raft.lag)

    async def aclose(self) -> None:
        """Close the connections."""
        for client in self._clients.values():
            await client.aclose()


class SupervisorWatch:
    """Reads the supervisor's `status.json`, and remembers every pid that it ever named.

    The memory tells what an orphan was whose parent can no longer say so.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._decoder = msgspec.json.Decoder(Status)
        self._fork_servers: set[int] = set()
        self.last: Status | None = None

    def read(self) -> Status | None:
        """Return the present status; the last good one if there is none to read."""
        try:
            status = self._decoder.decode(self._path.read_bytes())
        except (FileNotFoundError, msgspec.MsgspecError):
            return self.last
        if status.fork_server is not None:
            self._fork_servers.add(status.fork_server)
        self.last = status
        return status

    def was_fork_server(self, pid: int) -> bool:
        """Whether a status ever named this pid as the fork server."""
        self.read()
        return pid in self._fork_servers

    def is_ready(self, master: int, workers: int) -> bool:
        """Whether this master runs and all its workers have started."""
        status = self.read()
        if status is None or status.master != master or status.state != "running":
            return False
        return len(status.workers) >= workers

    def running(self) -> int:
        """Return how many workers are inside a job, as last read."""
        workers = self.last.workers if self.last else []
        return sum(worker.state == "running" for worker in workers)
