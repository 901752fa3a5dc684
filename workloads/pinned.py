"""Clients that are pinned to one node and never try again, so that each answer stands for itself.

Outcomes. `fail` means certainly not applied: status 400, 404 or 413, or no connection. Everything
else without an answer is `info`, also 429 and `no_leader`: a node that forwards tries again by
itself under the same request id, so that a refusal may belong to a second try while the first was
applied. Reads that fail are `fail`.
"""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Mapping
from typing import Final, Protocol, TypeVar

import trio

from ..histories.ops import Json, OpType
from ..system.client import AsyncClient, BrokerError, Call, ClientOptions, Endpoint
from .activity import Load
from .producer import OpenOp

T = TypeVar("T")

LAST_WRITE_S: Final = 25.0
"""Longer than the bound after which the checkers say that nothing goes on any more."""

_LAST_WRITE_PAUSE_S: Final = 0.2


class ClientRecorder(Protocol):
    """Where operations are written down; an invocation is stored before this returns."""

    def invoke(
        self, f: str, value: Json = None, node: str | None = None, process: str | None = None
    ) -> OpenOp:
        """Record that a process is about to ask `f`."""

    def complete(
        self,
        op: OpenOp,
        type_: OpType,
        value: Json = None,
        node: str | None = None,
        error: str | None = None,
    ) -> None:
        """Record how it ended."""


class PinnedClient:
    """One logical client of one node: one operation at a time, one try each.

    In the history it is the process `n1/0`. An operation that ends `info` may still take effect,
    so the client goes on as another process, `n1/0+1`.

    Attributes:
        node: The node's name.
        random: Its own stream of randomness.
    """

    def __init__(
        self,
        node: str,
        number: int,
        endpoint: Endpoint,
        recorder: ClientRecorder,
        load: Load,
        purpose: str = "",
    ) -> None:
        self.node = node
        self.name = f"{node}/{purpose}{number}"
        self.random = random.Random(f"{load.seed}/client/{self.name}")
        self._recorder = recorder
        self._lives = 0
        options = ClientOptions(load.try_timeout_s, load.try_timeout_s)
        self._client = AsyncClient((endpoint,), options)

    @property
    def process(self) -> str:
        """Its name in the history now."""
        return f"{self.name}+{self._lives}" if self._lives else self.name

    def invoke(self, f: str, value: Json = None) -> OpenOp:
        """Record what it is about to ask."""
        return self._recorder.invoke(f, value, self.node, self.process)

    def complete(
        self, op: OpenOp, type_: OpType, value: Json = None, error: str | None = None
    ) -> None:
        """Record how that ended."""
        self._recorder.complete(op, type_, value, self.node, error)
        if type_ == "info":
            self.be_reborn()

    def be_reborn(self) -> None:
        """Go on as another process."""
        self._lives += 1

    async def ask(self, call: Call[T]) -> T:
        """Ask its node, once.

        Raises:
            BrokerError: It was refused, or there was no answer.
        """
        return (await self._client.call(call, again=False)).value

    async def aclose(self) -> None:
        """Close its connections."""
        await self._client.aclose()


def outcome_of(error: BrokerError) -> OpType:
    """Whether a write that ended in an error is certain not to have been applied."""
    return "fail" if error.definite and error.status != 429 else "info"


def make_clients(
    endpoints: Mapping[str, Endpoint], recorder: ClientRecorder, load: Load
) -> tuple[PinnedClient, ...]:
    """Make the clients of every node."""
    return tuple(
        PinnedClient(node, number, endpoint, recorder, load)
        for node, endpoint in endpoints.items()
        for number in range(load.clients_per_node)
    )


class Repeats:
    """Clients that ask for something once more, later and through any node.

    Each is a client of its own, as the first one's answer is none of its business.

    Args:
        endpoints: Where each node serves clients.
        recorder: Where operations go.
        load: Size of the workload.
    """

    def __init__(
        self, endpoints: Mapping[str, Endpoint], recorder: ClientRecorder, load: Load
    ) -> None:
        self._endpoints = endpoints
        self._recorder = recorder
        self._load = load
        self._made = 0
        self.nursery: trio.Nursery | None = None

    def maybe(
        self,
        share: float,
        after_s_max: float,
        stream: random.Random,
        act: Callable[[PinnedClient], Awaitable[None]],
    ) -> None:
        """With a probability, let a client act within so many seconds, if the nursery is open."""
        if self.nursery is None or stream.random() >= share:
            return
        node, after_s = stream.choice(tuple(self._endpoints)), stream.uniform(0, after_s_max)
        endpoint = self._endpoints[node]
        client = PinnedClient(node, self._made, endpoint, self._recorder, self._load, "again-")
        self._made += 1
        self.nursery.start_soon(self._act, client, after_s, act)

    async def _act(
        self,
        client: PinnedClient,
        after_s: float,
        act: Callable[[PinnedClient], Awaitable[None]],
    ) -> None:
        await trio.sleep(after_s)
        await act(client)
        await client.aclose()


async def write_at_last(write: Callable[[], Awaitable[bool]]) -> None:
    """Write until one is acknowledged: at the end, with everything healed, it has to be soon."""
    until_s = trio.current_time() + LAST_WRITE_S
    while not await write() and trio.current_time() < until_s:
        await trio.sleep(_LAST_WRITE_PAUSE_S)


async def keep_busy(
    load: Load, clients: int, stream: random.Random, act: Callable[[], Awaitable[None]]
) -> None:
    """Act as one of so many clients until the time limit.

    Gaps are uniform around the client's share of the rate. A client that was held up does not make
    up for more than one beat.
    """
    at_s = trio.current_time()
    until_s, gap_s = at_s + load.time_limit_s, clients / load.rate
    at_s += stream.uniform(0, gap_s)
    while at_s < until_s:
        await trio.sleep_until(at_s)
        await act()
        at_s = max(trio.current_time(), at_s + stream.uniform(0, 2 * gap_s))
