"""A client on blocking terms: no event loop, no thread, one kept connection per node.

A call can be split: `send` puts it on the wire, `receive` reads its answer later. Nothing is opened
before the first call, so a client may be made before a fork and used after it.
"""

from __future__ import annotations

import os
import select
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final, Generic, TypeVar

from . import calls
from .calls import Call
from .connection import Connection
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
from .wire import Response, WireError, build_request

T = TypeVar("T")

RECEIVE_BYTES: Final = 1 << 16
READ_S_MIN: Final = 1.0
REQUEST_ID_BYTES: Final = 16


class Interrupted(Exception):  # noqa: N818
    """The descriptor that was watched beside the answer became readable; the call is still out."""


class Pending(Generic[T]):
    """A call whose answer has not been read yet."""

    __slots__ = ("_connection", "_pause_s", "_retry", "_try_until_s", "call", "request_id")

    def __init__(self, call: Call[T], request_id: str, retry: Retry) -> None:
        """Made by `SyncClient.send`."""
        self.call = call
        self.request_id = request_id
        self._retry = retry
        self._connection: Connection | None = None
        self._pause_s = 0.0
        self._try_until_s = 0.0

    @property
    def is_on_the_wire(self) -> bool:
        """Whether all its bytes were given to a connection that has not broken since."""
        return self._connection is not None

    def has_news(self) -> bool:
        """Whether `receive` has something to do at once: bytes came, or the try is lost."""
        return self._connection is None or bool(self._connection.poll.poll(0))

    def close(self) -> None:
        """Forget the call; the node sees its requester vanish."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None


class SyncClient:
    """Speaks to the nodes of one broker, one call at a time per kept connection."""

    def __init__(
        self,
        endpoints: Sequence[Endpoint],
        options: ClientOptions | None = None,
        *,
        interrupt_fd: int | None = None,
    ) -> None:
        """Name the nodes.

        Args:
            endpoints: At least one.
            options: How patient to be.
            interrupt_fd: A descriptor that an interruptible `receive` watches.
        """
        self.options = options or ClientOptions()
        self._endpoints = tuple(endpoints)
        self._preferred = self.options.first_endpoint
        self._idle: dict[Endpoint, Connection] = {}
        self._interrupt_fd = interrupt_fd

    def call(
        self, call: Call[T], *, request_id: str | None = None, deadline_s: float | None = None
    ) -> Answer[T]:
        """Make a call and wait for its answer, trying again until the deadline.

        Raises:
            BrokerError: It was refused, or no final answer came in time.
        """
        return self.receive(self.send(call, request_id=request_id, deadline_s=deadline_s))

    def send(
        self, call: Call[T], *, request_id: str | None = None, deadline_s: float | None = None
    ) -> Pending[T]:
        """Put a call on the wire, on the first node that takes it; never raises BrokerError.

        Args:
            call: What to ask.
            request_id: Id that every try carries; None mints one.
            deadline_s: How long to try in all; None takes the option.
        """
        patience_s = self.options.deadline_s if deadline_s is None else deadline_s
        until_s = time.monotonic() + call.wait_s + patience_s
        retry = Retry(self._endpoints, self._preferred, until_s)
        pending = Pending(call, request_id or os.urandom(REQUEST_ID_BYTES).hex(), retry)
        for _ in self._endpoints:
            if self._start(pending):
                break
        return pending

    def receive(
        self, pending: Pending[T], *, interruptible: bool = False, again: bool = True
    ) -> Answer[T]:
        """Read the answer of a call, sending it again when it got lost.

        Args:
            pending: What `send` returned.
            interruptible: Give up the wait when the interrupt descriptor becomes readable.
            again: Whether a lost call may be sent again.

        Raises:
            BrokerError: It was refused, or no final answer came in time.
            Interrupted: See `interruptible`; `receive` may be called again.
        """
        # An answer that has waited here since the try's time ran out must still be read whole.
        least_s = min(READ_S_MIN, self.options.try_timeout_s)
        pending._try_until_s = max(pending._try_until_s, time.monotonic() + least_s)
        while True:
            if pending._connection is not None:
                response = self._finish_try(pending, interruptible)
                if response is not None:
                    return self._read(pending, response)
            retry = pending._retry
            if not again or retry.remaining_s(time.monotonic()) <= pending._pause_s:
                # The next call must not begin at the node that has just failed this one.
                self._preferred = retry.index
                raise retry.error(pending.call.name)
            if pending._pause_s > 0:
                self._pause(pending._pause_s, interruptible)
            self._start(pending)

    def shorten(self, pending: Pending[T], seconds: float) -> None:
        """Have a call's deadline be `seconds` from now at the latest."""
        until_s = time.monotonic() + seconds
        pending._retry.shorten(until_s)
        pending._try_until_s = min(pending._try_until_s, until_s)

    def abandon(self, pending: Pending[T], timeout_s: float) -> T | None:
        """Withdraw a call without losing an answer that is already under way.

        Closes the sending half, so that the node sees its requester vanish, and reads on.

        Returns:
            The answer when one had been sent, else None.
        """
        connection = pending._connection
        if connection is None:
            return None
        pending._try_until_s = time.monotonic() + timeout_s
        try:
            connection.end_sending()
        except OSError:
            pending.close()
            return None
        endpoint = pending._retry.endpoint
        response = self._finish_try(pending, interruptible=False)
        # Half closed, it serves nobody else, even if the node keeps it.
        if self._idle.get(endpoint) is connection:
            del self._idle[endpoint]
        connection.close()
        if response is None:
            return None
        try:
            return pending.call.read(response)
        except BrokerError:
            return None

    def close(self) -> None:
        """Close every kept connection."""
        for connection in self._idle.values():
            connection.close()
        self._idle.clear()

    def push(self, items: Sequence[Mapping[str, object]]) -> Answer[tuple[PushResult, ...]]:
        """See `calls.push`."""
        return self.call(calls.push(items))

    def pop(self, queue: str, *, group: str, batch: int = 1, partitions: int = 1) -> Answer[Popped]:
        """See `calls.pop`; does not wait."""
        return self.call(calls.pop(queue, group=group, batch=batch, partitions=partitions))

    def ack(
        self,
        txn: str,
        partition_id: str,
        *,
        group: str,
        lease: str | None = None,
        status: str = "completed",
    ) -> Answer[tuple[AckResult, ...]]:
        """See `calls.ack`."""
        return self.call(calls.ack(txn, partition_id, group=group, lease=lease, status=status))

    def ack_batch(
        self, acknowledgments: Sequence[Mapping[str, object]], *, group: str
    ) -> Answer[tuple[AckResult, ...]]:
        """See `calls.ack_batch`."""
        return self.call(calls.ack_batch(acknowledgments, group=group))

    def extend(self, lease: str, seconds: float) -> Answer[ExtendResult]:
        """See `calls.extend`."""
        return self.call(calls.extend(lease, seconds))

    def transaction(self, body: Mapping[str, object]) -> Answer[TransactionResult]:
        """See `calls.transaction`."""
        return self.call(calls.transaction(body))

    def timers(self, operations: Sequence[Mapping[str, object]]) -> Answer[tuple[TimerResult, ...]]:
        """See `calls.timers`."""
        return self.call(calls.timers(operations))

    def configure(self, queue: str, options: Mapping[str, object]) -> Answer[None]:
        """See `calls.configure`."""
        return self.call(calls.configure(queue, options))

    def depth(self, queue: str, group: str) -> Answer[Depth]:
        """See `calls.depth`."""
        return self.call(calls.depth(queue, group))

    def dlq(
        self, queue: str, group: str, *, limit: int = 100, offset: int = 0
    ) -> Answer[DeadLetters]:
        """See `calls.dlq`."""
        return self.call(calls.dlq(queue, group, limit=limit, offset=offset))

    def delete_dead_letter(self, partition_id: str, txn: str) -> Answer[bool]:
        """See `calls.delete_dead_letter`."""
        return self.call(calls.delete_dead_letter(partition_id, txn))

    def health(self, endpoint: Endpoint, timeout_s: float = 1.0) -> Answer[Health]:
        """Ask one node, once."""
        options = replace(self.options, try_timeout_s=timeout_s, deadline_s=timeout_s)
        asked = SyncClient((endpoint,), options)
        try:
            return asked.receive(asked.send(calls.health()), again=False)
        finally:
            asked.close()

    def _start(self, pending: Pending[T]) -> bool:
        """Begin a try; whether it is on the wire. If not, the pending call knows its pause."""
        retry = pending._retry
        endpoint = retry.endpoint
        now_s = time.monotonic()
        try_s = min(
            pending.call.wait_s + self.options.try_timeout_s, max(0.0, retry.remaining_s(now_s))
        )
        pending._try_until_s = now_s + try_s
        retry.begin()
        connection = self._idle.pop(endpoint, None)
        if connection is not None and connection.is_closed():
            connection.close()
            connection = None
        if connection is None:
            try:
                connection = Connection.open(endpoint, try_s, self.options.tls)
            except OSError as error:
                pending._pause_s = retry.refused(f"{endpoint}: {error}")
                return False
        call = pending.call
        data = build_request(
            call.method,
            call.target,
            str(endpoint),
            call.body,
            pending.request_id,
            hold_ms(try_s),
            self.options.bearer,
        )
        try:
            connection.send_all(data, pending._try_until_s)
        except OSError as error:
            connection.close()
            timed_out = isinstance(error, TimeoutError)
            pending._pause_s = retry.lost(f"{endpoint}: {error}", timed_out=timed_out)
            return False
        pending._connection = connection
        return True

    def _finish_try(self, pending: Pending[T], interruptible: bool) -> Response | None:
        """Read until the try ends. Returns its final answer; None when it has to be repeated."""
        connection = pending._connection
        assert connection is not None, "no try is out"
        retry = pending._retry
        while True:
            try:
                data = connection.receive(RECEIVE_BYTES)
                response = connection.parser.feed(data) if data else None
            except BlockingIOError:
                if self._wait(connection, pending._try_until_s, interruptible):
                    continue
                self._broken(pending, "no answer in time", timed_out=True)
                return None
            except (OSError, WireError) as error:
                self._broken(pending, str(error))
                return None
            if not data:
                self._broken(pending, "closed before the answer")
                return None
            if response is None:
                continue
            pending._connection = None
            self._keep(retry.endpoint, connection, response)
            pause_s = retry.answered(response, pending.call.finals)
            if pause_s is None:
                return response
            pending._pause_s = pause_s
            return None

    def _broken(self, pending: Pending[T], text: str, *, timed_out: bool = False) -> None:
        pending.close()
        retry = pending._retry
        pending._pause_s = retry.lost(f"{retry.endpoint}: {text}", timed_out=timed_out)

    def _keep(self, endpoint: Endpoint, connection: Connection, response: Response) -> None:
        if response.keep_alive and endpoint not in self._idle:
            self._idle[endpoint] = connection
        else:
            connection.close()

    def _read(self, pending: Pending[T], response: Response) -> Answer[T]:
        retry = pending._retry
        self._preferred = retry.index
        try:
            value = pending.call.read(response)
        except BrokerError as error:
            raise retry.final(error) from None
        return Answer(value, retry.endpoint, retry.tries)

    def _wait(self, connection: Connection, until_s: float, interruptible: bool) -> bool:
        timeout_s = until_s - time.monotonic()
        if timeout_s <= 0:
            return False
        poll = connection.poll
        watch = self._interrupt_fd if interruptible else None
        if watch is None:
            return bool(poll.poll(timeout_s * 1000))
        poll.register(watch, select.POLLIN)
        try:
            ready = poll.poll(timeout_s * 1000)
        finally:
            poll.unregister(watch)
        if any(fd == watch for fd, _ in ready):
            raise Interrupted
        return bool(ready)

    def _pause(self, pause_s: float, interruptible: bool) -> None:
        if self._interrupt_fd is None or not interruptible:
            time.sleep(pause_s)
        elif select.select([self._interrupt_fd], [], [], pause_s)[0]:
            raise Interrupted
