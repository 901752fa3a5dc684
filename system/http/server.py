"""HTTP/1.1 connections on trio: one task a connection, answers in the order of the requests."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable
from typing import Final

import msgspec
import trio

from .framing import CONTINUE, FramingError, HttpLimits, Request, RequestParser, encode_response
from .patience import Patience
from .routes import Answer, error_answer, too_large_answer
from .transport import READ_BYTES, transport_of

TURNED_AWAY_MAX: Final = 64
"""Connections that are being turned away with an answer; further ones are just closed."""

_LINGER_S: Final = 2.0
_LOOK_S: Final = 0.02
_PIPELINED_BYTES_MAX: Final = 1024 * 1024
_ERROR_CODES: Final = {
    408: "timeout",
    431: "bad_request",
    405: "method_not_allowed",
    429: "overloaded",
}


class Delivery(msgspec.Struct, frozen=True):
    """An answer, and what to do when it cannot be handed to its client.

    `is_begun` says that `ClientConnection.answer_now` has written it.
    """

    answer: Answer
    on_lost: Callable[[], None] | None = None
    is_begun: bool = False


Handler = Callable[[Request, "ClientConnection"], Awaitable[Delivery]]


class HttpServer:
    """Serves connections until told to stop; `watch` must run beside them.

    Args:
        handler: Answers one request; called one at a time for each connection.
        limits: What a connection may cost.
        on_turned_away: Called for each connection above `limits.connections_max`.

    Attributes:
        is_closing: Whether every answer from now on is its connection's last.
    """

    def __init__(
        self,
        handler: Handler,
        limits: HttpLimits = HttpLimits(),  # noqa: B008
        on_turned_away: Callable[[], None] = lambda: None,
    ) -> None:
        self.is_closing = False
        self._handler = handler
        self._limits = limits
        self._connections: set[ClientConnection] = set()
        self._emptied = trio.Event()
        self._receiving_bytes = 0
        self._turned_away = 0
        self._on_turned_away = on_turned_away
        timeouts_s = (limits.header_timeout_s, limits.body_timeout_s, limits.idle_timeout_s)
        self._patience = Patience(min(timeouts_s))

    @property
    def connections(self) -> int:
        """How many are open."""
        return len(self._connections)

    async def serve(self, stream: trio.abc.Stream) -> None:
        """Serve one connection until it ends."""
        if len(self._connections) >= self._limits.connections_max:
            await self._turn_away(stream)
            return
        connection = ClientConnection(stream, self._handler, self._limits, self)
        self._connections.add(connection)
        self._patience.add(connection)
        try:
            await connection.run()
        finally:
            self._patience.discard(connection)
            self._connections.discard(connection)
            if not self._connections:
                self._emptied.set()

    async def watch(self) -> None:
        """End what takes too long on any connection, until cancelled."""
        await self._patience.watch()

    def receiving(self, change: int, held: int) -> None:
        """A connection holds more, or less, of an unfinished body than before.

        Raises:
            FramingError: All of them together are too many bytes, and this is not the only one.
        """
        self._receiving_bytes += change
        if change > 0 and held < self._receiving_bytes > self._limits.receiving_bytes_max:
            raise FramingError(429, "more bytes of requests are on their way than this node holds")

    async def _turn_away(self, stream: trio.abc.Stream) -> None:
        """Say that there are too many connections, to so many at a time, and close."""
        self._on_turned_away()
        async with stream:
            if self._turned_away >= TURNED_AWAY_MAX:
                return
            self._turned_away += 1
            try:
                text = f"more than {self._limits.connections_max} connections to this node"
                await send_last(stream, error_answer(429, "overloaded", text, retry_after_s=1))
            except trio.BrokenResourceError:
                return
            finally:
                self._turned_away -= 1

    def close_idle(self) -> None:
        """Close connections that wait for a request, and the others behind their next answer."""
        self.is_closing = True
        for connection in list(self._connections):
            connection.close_if_idle()

    async def wait_empty(self) -> None:
        """Return once no connection is left."""
        while self._connections:
            self._emptied = trio.Event()
            await self._emptied.wait()


class ClientConnection:
    """One client's connection.

    Attributes:
        deadline: Until when the client must have sent something; infinite while it is answered.
    """

    def __init__(
        self,
        stream: trio.abc.Stream,
        handler: Handler,
        limits: HttpLimits,
        server: HttpServer,
    ) -> None:
        self.deadline = math.inf
        self._stream = stream
        self._transport = transport_of(stream)
        self._handler = handler
        self._limits = limits
        self._server = server
        self._parser = RequestParser(limits)
        self._scope = trio.CancelScope()
        self._is_idle = True
        self._has_ended = False
        self._request_began = math.inf
        self._body_began = math.inf
        self._unparsed_bytes = 0
        self._receiving_bytes = 0
        self._answering: Request | None = None
        self._unsent = b""

    async def run(self) -> None:
        """Answer requests until either side has had enough."""
        # Only a dead process closes a socket without coming by the end of this function. Its
        # clients then get a reset, which sends them to another node; a plain end would not.
        self._transport.reset_on_close(True)
        async with self._stream:
            try:
                refusal = await self._serve()
                if refusal is not None:
                    await self._refuse(refusal)
            except trio.BrokenResourceError:
                return
            finally:
                self._transport.reset_on_close(False)
                self._server.receiving(-self._receiving_bytes, 0)

    def expire(self) -> None:
        """End the connection: its client has taken too long."""
        self._scope.cancel()

    async def _serve(self) -> FramingError | None:
        try:
            with self._scope:
                await self._answer_all()
        except FramingError as error:
            return error
        if self._scope.cancelled_caught and self._is_mid_request():
            return FramingError(408, "the request took too long to arrive")
        return None

    async def wait_gone(self) -> None:
        """Return once the client has hung up; what it sends meanwhile is kept.

        For the handler only, while it works on a request of this connection.
        """
        while not self._has_ended:
            if self._unparsed_bytes > _PIPELINED_BYTES_MAX:
                await trio.sleep_forever()
            await self._receive_ahead(is_likely=False)

    def answer_now(self, answer: Answer) -> bool:
        """Write the answer to the request that is being handled, where that needs no waiting.

        For the handler only; what it returns must say so. The rest of a long answer follows then.

        Returns:
            Whether it was begun; not if the client has sent anything, its end included.
        """
        request = self._answering
        assert request is not None, "an answer to no request"
        is_last = self._server.is_closing or not request.keep_alive or request.method == "HEAD"
        if is_last or self._has_ended or self._unparsed_bytes or self._transport.has_more():
            return False
        data = encode_response(
            answer.status, answer.body, answer.content_type, answer.headers, close=False
        )
        sent = self._transport.send_now(data)
        self._unsent = data[sent:]
        return sent > 0

    async def _receive_ahead(self, is_likely: bool) -> None:
        """Keep what the client sends while a request of it is being answered."""
        data: bytes | memoryview
        try:
            data = await self._transport.receive(is_likely)
        except trio.BrokenResourceError:
            data = b""
        self._take(data)
        self._unparsed_bytes += len(data)

    def close_if_idle(self) -> None:
        """End the connection unless a request is being received or answered."""
        if self._is_idle:
            self._scope.cancel()

    async def _answer_all(self) -> None:
        while True:
            request = await self._next_request()
            if request is None:
                return
            self._answering = request
            delivery = await self._handler(request, self)
            close = self._server.is_closing or not request.keep_alive
            if not await self._deliver(request, delivery, close) or close:
                return

    async def _next_request(self) -> Request | None:
        parser = self._parser
        request = parser.next_request()
        if request is not None:
            # Nothing was waited for, and a long pipeline must not keep all others waiting.
            await trio.lowlevel.checkpoint()
        while request is None:
            self._unparsed_bytes = 0
            if self._has_ended:
                return None
            if parser.wants_continue:
                parser.wants_continue = False
                await self._transport.send(CONTINUE)
            self.deadline = self._read_deadline()
            self._is_idle = not self._is_mid_request()
            if self._is_idle and self._server.is_closing:
                return None
            self._take(await self._transport.receive(parser.in_body))
            self._count_unfinished()
            request = parser.next_request()
        self._is_idle = False
        self.deadline = math.inf
        self._request_began = math.inf
        self._body_began = math.inf
        return request

    def _take(self, data: bytes | memoryview) -> None:
        if not data:
            self._has_ended = True
        else:
            self._parser.feed(data)

    def _count_unfinished(self) -> None:
        held = self._parser.unfinished_bytes
        change, self._receiving_bytes = held - self._receiving_bytes, held
        self._server.receiving(change, held)

    def _is_mid_request(self) -> bool:
        return self._parser.in_headers or self._parser.in_body

    def _read_deadline(self) -> float:
        now = trio.current_time()
        if self._parser.in_body:
            self._body_began = min(self._body_began, now)
            self._check_pace(now)
            return now + self._limits.body_timeout_s
        if self._parser.in_headers:
            self._request_began = min(self._request_began, now)
            return self._request_began + self._limits.header_timeout_s
        self._request_began = math.inf
        return now + self._limits.idle_timeout_s

    def _check_pace(self, now: float) -> None:
        """Refuse a body that comes for ever because a little of it always comes.

        Raises:
            FramingError: It is slower than allowed.
        """
        limits, held = self._limits, self._parser.unfinished_bytes
        if now - self._body_began > limits.body_timeout_s + held / limits.body_rate_min:
            text = f"a body must bring {limits.body_rate_min} bytes a second"
            raise FramingError(408, text)

    async def _deliver(self, request: Request, delivery: Delivery, close: bool) -> bool:
        """Write an answer; False when the client did not take it."""
        answer = delivery.answer
        if delivery.is_begun:
            data = self._unsent
        elif delivery.on_lost is not None and await self._is_gone():
            delivery.on_lost()
            return False
        else:
            data = encode_response(
                answer.status,
                answer.body,
                answer.content_type,
                answer.headers,
                close,
                head_only=request.method == "HEAD",
            )
        try:
            if data:
                await self._transport.send(data)
        except trio.BrokenResourceError:
            if delivery.on_lost is not None:
                delivery.on_lost()
            return False
        return True

    async def _is_gone(self) -> bool:
        """Whether the client has hung up already, as far as can be known without waiting."""
        if self._has_ended or not self._transport.has_more():
            return self._has_ended
        # Part of a TLS record is readable, and brings nothing yet; that is not waited for.
        with trio.move_on_after(_LOOK_S):
            while not self._has_ended and self._transport.has_more():
                if self._unparsed_bytes > _PIPELINED_BYTES_MAX:
                    break
                await self._receive_ahead(is_likely=True)
        return self._has_ended

    async def _refuse(self, error: FramingError) -> None:
        """Answer what is no acceptable request, then close so that the client can read that."""
        if error.status == 413:
            answer = too_large_answer()
        else:
            code = _ERROR_CODES.get(error.status, "bad_request")
            wait_s = 1 if error.status == 429 else None
            answer = error_answer(error.status, code, str(error), wait_s)
        await send_last(self._stream, answer)


async def send_last(stream: trio.abc.Stream, answer: Answer) -> None:
    """Send an answer on a connection that ends with it, whatever the client is still sending.

    Raises:
        trio.BrokenResourceError: The client is gone.
    """
    data = encode_response(
        answer.status, answer.body, answer.content_type, answer.headers, close=True
    )
    with trio.move_on_after(_LINGER_S):
        await stream.send_all(data)
        if isinstance(stream, trio.abc.HalfCloseableStream):
            await stream.send_eof()
        # Closing with unread bytes would reset the connection, and the answer with it.
        while await stream.receive_some(READ_BYTES):
            pass
