"""A client on trio: a pool of kept connections per node; a cancelled call closes its connection."""

from __future__ import annotations

import ssl
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final, TypeVar

import trio

from . import calls
from .calls import Call
from .errors import BrokerError
from .records import (
    AckResult,
    Answer,
    DeadLetters,
    Depth,
    Endpoint,
    ExtendResult,
    Health,
    Popped,
    PushResult,
    TimerResult,
    TransactionResult,
)
from .retry import ClientOptions, Retry, hold_ms
from .wire import Response, ResponseParser, WireError, build_request

T = TypeVar("T")
Secured = trio.SSLStream[trio.SocketStream]

RECEIVE_BYTES: Final = 1 << 16
IDLE_PER_ENDPOINT_MAX: Final = 16


class _Connection:
    __slots__ = ("parser", "stream", "transport")

    def __init__(self, transport: trio.SocketStream, stream: trio.SocketStream | Secured) -> None:
        self.transport = transport
        self.stream = stream
        self.parser = ResponseParser()

    def close(self) -> None:
        self.transport.socket.close()

    def is_closed(self) -> bool:
        """Whether the node has closed it, or sent what nobody asked for."""
        return self.transport.socket.is_readable()


class AsyncClient:
    """Speaks to the nodes of one broker from any number of trio tasks."""

    def __init__(self, endpoints: Sequence[Endpoint], options: ClientOptions | None = None) -> None:
        """Name the nodes, at least one."""
        self.options = options or ClientOptions()
        self._endpoints = tuple(endpoints)
        self._preferred = self.options.first_endpoint
        self._idle: dict[Endpoint, list[_Connection]] = {e: [] for e in self._endpoints}

    async def call(
        self,
        call: Call[T],
        *,
        request_id: str | None = None,
        deadline_s: float | None = None,
        first_endpoint: int | None = None,
        again: bool = True,
    ) -> Answer[T]:
        """Make a call, trying again until the deadline.

        Args:
            call: What to ask.
            request_id: Id that every try carries; None mints one.
            deadline_s: How long to try in all; None takes the option.
            first_endpoint: Index of the node to ask first; None asks the one that answered last.
            again: Whether to try more than once.

        Raises:
            BrokerError: It was refused, or no final answer came in time.
        """
        patience_s = self.options.deadline_s if deadline_s is None else deadline_s
        until_s = trio.current_time() + call.wait_s + patience_s
        first = self._preferred if first_endpoint is None else first_endpoint
        retry = Retry(self._endpoints, first, until_s)
        request_id = request_id or uuid.uuid4().hex
        while True:
            outcome = await self._try(call, request_id, retry)
            if isinstance(outcome, Response):
                return self._read(call, retry, outcome, first_endpoint is None)
            if not again or retry.remaining_s(trio.current_time()) <= outcome:
                # The next call must not begin at the node that has just failed this one.
                if first_endpoint is None:
                    self._preferred = retry.index
                raise retry.error(call.name)
            await trio.sleep(outcome)

    async def aclose(self) -> None:
        """Close every kept connection."""
        for connections in self._idle.values():
            while connections:
                connections.pop().close()
        await trio.lowlevel.checkpoint()

    async def push(self, items: Sequence[Mapping[str, object]]) -> Answer[tuple[PushResult, ...]]:
        """See `calls.push`."""
        return await self.call(calls.push(items))

    async def pop(
        self,
        queue: str,
        *,
        group: str,
        batch: int = 1,
        partitions: int = 1,
        lease_s: float | None = None,
        wait_s: float = 0.0,
    ) -> Answer[Popped]:
        """See `calls.pop`."""
        call = calls.pop(
            queue, group=group, batch=batch, partitions=partitions, lease_s=lease_s, wait_s=wait_s
        )
        return await self.call(call)

    async def ack(
        self,
        txn: str,
        partition_id: str,
        *,
        group: str,
        lease: str | None = None,
        status: str = "completed",
        error: str | None = None,
    ) -> Answer[tuple[AckResult, ...]]:
        """See `calls.ack`."""
        call = calls.ack(txn, partition_id, group=group, lease=lease, status=status, error=error)
        return await self.call(call)

    async def ack_batch(
        self, acknowledgments: Sequence[Mapping[str, object]], *, group: str
    ) -> Answer[tuple[AckResult, ...]]:
        """See `calls.ack_batch`."""
        return await self.call(calls.ack_batch(acknowledgments, group=group))

    async def extend(self, lease: str, seconds: float) -> Answer[ExtendResult]:
        """See `calls.extend`."""
        return await self.call(calls.extend(lease, seconds))

    async def transaction(self, body: Mapping[str, object]) -> Answer[TransactionResult]:
        """See `calls.transaction`."""
        return await self.call(calls.transaction(body))

    async def timers(
        self, operations: Sequence[Mapping[str, object]]
    ) -> Answer[tuple[TimerResult, ...]]:
        """See `calls.timers`."""
        return await self.call(calls.timers(operations))

    async def count_timers(self, queue: str, prefix: str = "") -> Answer[int]:
        """See `calls.count_timers`."""
        return await self.call(calls.count_timers(queue, prefix))

    async def configure(self, queue: str, options: Mapping[str, object]) -> Answer[None]:
        """See `calls.configure`."""
        return await self.call(calls.configure(queue, options))

    async def depth(self, queue: str, group: str) -> Answer[Depth]:
        """See `calls.depth`."""
        return await self.call(calls.depth(queue, group))

    async def dlq(
        self, queue: str, group: str, *, limit: int = 100, offset: int = 0
    ) -> Answer[DeadLetters]:
        """See `calls.dlq`."""
        return await self.call(calls.dlq(queue, group, limit=limit, offset=offset))

    async def delete_dead_letter(self, partition_id: str, txn: str) -> Answer[bool]:
        """See `calls.delete_dead_letter`."""
        return await self.call(calls.delete_dead_letter(partition_id, txn))

    async def health(self, endpoint: Endpoint, timeout_s: float = 1.0) -> Answer[Health]:
        """Ask one node, once, on a connection of its own."""
        options = replace(self.options, try_timeout_s=timeout_s, deadline_s=timeout_s)
        asked = AsyncClient((endpoint,), options)
        try:
            return await asked.call(calls.health(), again=False)
        finally:
            for connections in asked._idle.values():
                for connection in connections:
                    connection.close()

    async def _try(self, call: Call[T], request_id: str, retry: Retry) -> Response | float:
        """One try. Returns its final answer, or the pause before the next try, seconds."""
        retry.begin()
        endpoint = retry.endpoint
        remaining_s = max(0.0, retry.remaining_s(trio.current_time()))
        try_s = min(call.wait_s + self.options.try_timeout_s, remaining_s)
        connection: _Connection | None = None
        response: Response | None = None
        try:
            with trio.move_on_after(try_s):
                try:
                    connection = self._take_idle(endpoint)
                    if connection is None:
                        connection = await _connect(endpoint, self.options.tls)
                except (OSError, trio.BrokenResourceError) as error:
                    return retry.refused(f"{endpoint}: {_reason(error)}")
                data = build_request(
                    call.method,
                    call.target,
                    str(endpoint),
                    call.body,
                    request_id,
                    hold_ms(try_s),
                    self.options.bearer,
                )
                try:
                    response = await _exchange(connection, data)
                except (trio.BrokenResourceError, OSError, WireError) as error:
                    return retry.lost(f"{endpoint}: {error}")
        finally:
            # Also on cancellation: an answer that nobody waits for must not meet the next request.
            if response is None and connection is not None:
                connection.close()
        if response is None:
            if connection is None:
                return retry.refused(f"{endpoint}: no connection in time")
            return retry.lost(f"{endpoint}: no answer in time", timed_out=True)
        assert connection is not None, "an answer without a connection"
        self._keep(endpoint, connection, response)
        pause_s = retry.answered(response, call.finals)
        return response if pause_s is None else pause_s

    def _take_idle(self, endpoint: Endpoint) -> _Connection | None:
        idle = self._idle[endpoint]
        while idle:
            connection = idle.pop()
            if not connection.is_closed():
                return connection
            connection.close()
        return None

    def _keep(self, endpoint: Endpoint, connection: _Connection, response: Response) -> None:
        idle = self._idle[endpoint]
        if response.keep_alive and len(idle) < IDLE_PER_ENDPOINT_MAX:
            idle.append(connection)
        else:
            connection.close()

    def _read(self, call: Call[T], retry: Retry, response: Response, prefer: bool) -> Answer[T]:
        if prefer:
            self._preferred = retry.index
        try:
            value = call.read(response)
        except BrokerError as error:
            raise retry.final(error) from None
        return Answer(value, retry.endpoint, retry.tries)


async def _connect(endpoint: Endpoint, tls: ssl.SSLContext | None) -> _Connection:
    sock = trio.socket.socket()
    try:
        await sock.connect((endpoint.host, endpoint.port))
        plain = trio.SocketStream(sock)
        if tls is None:
            return _Connection(plain, plain)
        secured = trio.SSLStream(plain, tls, server_hostname=endpoint.host, https_compatible=True)
        await secured.do_handshake()
        return _Connection(plain, secured)
    except BaseException:
        sock.close()
        raise


def _reason(error: Exception) -> str:
    """What went wrong below TLS, or in it."""
    return str(error.__cause__ or error)


async def _exchange(connection: _Connection, data: bytes) -> Response:
    await connection.stream.send_all(data)
    while True:
        received = await connection.stream.receive_some(RECEIVE_BYTES)
        if not received:
            raise WireError("closed before the answer")
        response = connection.parser.feed(bytes(received))
        if response is not None:
            return response
