"""The links of a run without privileges: the rules of a proxy, which is a process of its own."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

import msgspec
import trio

from .levels import LINKS, MESSAGES, SHAPES
from .links import LinkCounts, LinkError, LinkRule, Pair
from .proxy.control import LINE_BYTES_MAX, Answer, Order, PairRule
from .proxy.unix import connected_unix

_ANSWER_S: Final = 15.0
_POLL_S: Final = 0.01
_READ_BYTES: Final = 65_536


class ProxyLinks:
    """See `links.Links`.

    Args:
        control: The proxy's Unix socket.
    """

    def __init__(self, control: Path) -> None:
        self.powers = frozenset({LINKS, SHAPES, MESSAGES})
        self._path = control
        self._stream: trio.SocketStream | None = None
        self._buffer = bytearray()
        self._turn = trio.Lock()

    async def connect(self, timeout_s: float) -> None:
        """Wait until the proxy takes orders, when it listens on all its ways.

        Raises:
            LinkError: It does not in time.
        """
        with trio.move_on_after(timeout_s):
            while True:
                try:
                    sock = connected_unix(self._path)
                except OSError:
                    await trio.sleep(_POLL_S)
                    continue
                self._stream = trio.SocketStream(trio.socket.from_stdlib_socket(sock))
                return
        raise LinkError(f"the link proxy does not listen after {timeout_s:g} s")

    async def begin(self, fault: str, rules: Mapping[Pair, LinkRule]) -> None:
        """See `links.Links`."""
        told = [PairRule(*pair, rule) for pair, rule in rules.items()]
        await self._ask(Order("begin", fault, told))

    async def end(self, fault: str) -> None:
        """See `links.Links`."""
        await self._ask(Order("end", fault))

    async def counts(self, fault: str) -> Mapping[Pair, LinkCounts]:
        """See `links.Links`."""
        answer = await self._ask(Order("counts", fault))
        return {(each.source, each.target): each.counts for each in answer.counts}

    async def sync(self) -> None:
        """Have everything captured so far in its file; errors as `begin`."""
        await self._ask(Order("sync"))

    async def _ask(self, order: Order) -> Answer:
        async with self._turn:
            if self._stream is None:
                raise LinkError("the link proxy has ended")
            try:
                # Shielded: an answer that nobody read would be taken for the next order's.
                with trio.fail_after(_ANSWER_S, shield=True):
                    await self._stream.send_all(msgspec.json.encode(order) + b"\n")
                    answer = msgspec.json.decode(await self._line(self._stream), type=Answer)
            except (OSError, trio.BrokenResourceError, trio.TooSlowError) as error:
                self.close()
                raise LinkError(f"the link proxy does not answer: {error}") from None
        if answer.error:
            raise LinkError(answer.error)
        return answer

    async def _line(self, stream: trio.SocketStream) -> bytes:
        while (end := self._buffer.find(b"\n")) < 0:
            data = await stream.receive_some(_READ_BYTES)
            if not data or len(self._buffer) > LINE_BYTES_MAX:
                raise trio.BrokenResourceError("it has hung up")
            self._buffer += data
        line = bytes(self._buffer[:end])
        del self._buffer[: end + 1]
        return line

    def close(self) -> None:
        """Hang up; the proxy goes on."""
        if self._stream is not None:
            self._stream.socket.close()
            self._stream = None
