"""A proxy in this process, an echoing server behind it, and clients before it."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import trio

from atleastonce.nemesis.links import LinkCounts, LinkRule, Pair
from atleastonce.nemesis.proxy.control import Order, PairRule, Plan, Service, Way
from atleastonce.nemesis.proxy.proxying import Proxy
from atleastonce.nemesis.proxy.tap import Tap

DEADLINE_S = 5.0
THERE: Pair = ("n1", "n2")
BACK: Pair = ("n2", "n1")


@dataclass
class Rig:
    """Both ends of the way from n1 to n2.

    Attributes:
        proxy: The proxy.
        way: The way.
        received: What the server has got, in order, over all connections.
        accepted: The server's sides of the connections.
    """

    proxy: Proxy
    way: Way
    received: bytearray = field(default_factory=bytearray)
    accepted: list[trio.SocketStream] = field(default_factory=list)
    ended: list[str] = field(default_factory=list)

    async def dial(self) -> trio.SocketStream:
        """Connect as n1 and have the server know."""
        known = len(self.accepted)
        stream = await trio.open_tcp_stream(*self.way.listen)
        await until(lambda: len(self.accepted) > known)
        return stream

    def begin(self, rule: LinkRule, *pairs: Pair, fault: str = "f") -> str:
        """Put a rule into force; returns why not."""
        rules = [PairRule(*pair, rule) for pair in pairs or (THERE,)]
        return self.proxy.obey(Order("begin", fault, rules)).error

    def end(self, fault: str = "f") -> None:
        """Take it back."""
        self.proxy.obey(Order("end", fault))

    def counts(self, pair: Pair = THERE, fault: str = "f") -> LinkCounts:
        """What the fault has done."""
        answer = self.proxy.obey(Order("counts", fault))
        return next(e.counts for e in answer.counts if (e.source, e.target) == pair)

    async def serve(self, stream: trio.SocketStream) -> None:
        """Echo whatever comes."""
        self.accepted.append(stream)
        try:
            async for data in stream:
                self.received += data
                await stream.send_all(data)
            self.ended.append("eof")
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            self.ended.append("reset")


async def until(condition: Callable[[], bool]) -> None:
    """Wait for a condition, until the deadline."""
    with trio.fail_after(DEADLINE_S):
        while not condition():
            await trio.sleep(0.002)


async def read(stream: trio.SocketStream, size: int) -> bytes:
    """Receive exactly so many bytes, until the deadline."""
    data = b""
    with trio.fail_after(DEADLINE_S):
        while len(data) < size:
            more = await stream.receive_some(size - len(data))
            if not more:
                raise trio.BrokenResourceError("ended early")
            data += more
    return data


async def is_silent(stream: trio.SocketStream, within_s: float = 0.1) -> bool:
    """Whether nothing comes for a while."""
    with trio.move_on_after(within_s):
        await stream.receive_some(1)
        return False
    return True


def free_port() -> int:
    """A port that nobody has now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@asynccontextmanager
async def rig(
    service: Service = "client", tap: Callable[[Way, int], Tap] | None = None
) -> AsyncIterator[Rig]:
    """Run all of it."""
    listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
    port = listeners[0].socket.getsockname()[1]
    way = Way("n1", "n2", service, ("127.77.1.2", port), ("127.0.0.1", port))
    here = Rig(Proxy(Plan([way], "", 1, 0), tap), way)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(trio.serve_listeners, here.serve, listeners)
        nursery.start_soon(here.proxy.run)
        yield here
        nursery.cancel_scope.cancel()
