"""Clients that hang up: certain of what they got, and of what they did not."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest
import trio

from atleastonce.system.client import BrokerError, Endpoint, Popped, calls
from atleastonce.workloads.hangup import ask_and_hang_up

EMPTY = b"HTTP/1.1 204 No Content\r\n\r\n"
CALL = calls.pop("q", group="g", wait_s=2.0)

Serve = Callable[[trio.SocketStream], Awaitable[None]]


async def heard_the_end(stream: trio.SocketStream) -> bytes:
    """Everything that the client sends until it closes its side."""
    heard = b""
    while data := await stream.receive_some(1000):
        heard += data
    return heard


def ask(serve: Serve, after_s: float) -> Popped | BrokerError | None:
    async def main() -> Popped | BrokerError | None:
        async with trio.open_nursery() as nursery:
            (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
            nursery.start_soon(trio.serve_listeners, serve, [listener])
            endpoint = Endpoint("127.0.0.1", listener.socket.getsockname()[1])
            result: Popped | BrokerError | None
            try:
                result = await ask_and_hang_up(endpoint, CALL, "id", after_s, 5.0)
            except BrokerError as error:
                result = error
            nursery.cancel_scope.cancel()
        return result

    return trio.run(main)


def test_answer_that_comes_before_is_the_answer() -> None:
    async def serve(stream: trio.SocketStream) -> None:
        request = await stream.receive_some(1000)
        assert b"x-request-id: id" in request
        await stream.send_all(EMPTY)
        await heard_the_end(stream)

    assert ask(serve, 5.0) == Popped()


def test_node_that_closes_without_an_answer_gave_none() -> None:
    async def serve(stream: trio.SocketStream) -> None:
        assert (await heard_the_end(stream)).startswith(b"GET /api/v1/pop/queue/q")
        await stream.aclose()

    assert ask(serve, 0.02) is None


def test_answer_that_comes_after_hanging_up_still_counts() -> None:
    async def serve(stream: trio.SocketStream) -> None:
        await heard_the_end(stream)
        await stream.send_all(EMPTY)
        await stream.aclose()

    assert ask(serve, 0.02) == Popped()


@pytest.mark.parametrize("part", [b"HTTP/1.1 204 No", b"nonsense\r\n\r\n"])
def test_half_an_answer_is_an_error_with_unknown_outcome(part: bytes) -> None:
    async def serve(stream: trio.SocketStream) -> None:
        await heard_the_end(stream)
        await stream.send_all(part)
        await stream.aclose()

    got = ask(serve, 0.02)

    assert isinstance(got, BrokerError)
    assert not got.definite
