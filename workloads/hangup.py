"""A client that asks, and hangs up before it has waited to the end.

It closes its own side of the connection and reads the other one to its end. So it knows for
certain: either the answer came all the same, or the node knows that nobody got it.
"""

from __future__ import annotations

from typing import Final, TypeVar

import trio

from ..system.client import BrokerError, Call, Endpoint
from ..system.client.errors import CODE_LOST
from ..system.client.wire import Response, ResponseParser, WireError, build_request

T = TypeVar("T")

_READ_BYTES: Final = 64 * 1024


async def ask_and_hang_up(
    endpoint: Endpoint, call: Call[T], request_id: str, after_s: float, timeout_s: float
) -> T | None:
    """Ask, and hang up after a while unless the answer is there.

    Returns:
        The answer, also one that came after; None where the node closed without one.

    Raises:
        BrokerError: It was refused, or the connection broke, so that an answer may have been lost.
    """
    host = f"{endpoint.host}:{endpoint.port}"
    data = build_request(call.method, call.target, host, call.body, request_id)
    try:
        with trio.fail_after(timeout_s):
            stream = await trio.open_tcp_stream(endpoint.host, endpoint.port)
            async with stream:
                await stream.send_all(data)
                response = await _read(stream, after_s)
    except (OSError, trio.BrokenResourceError, trio.TooSlowError, WireError) as error:
        text = str(error) or type(error).__name__
        raise BrokerError(None, CODE_LOST, text, definite=False) from None
    return None if response is None else call.read(response)


async def _read(stream: trio.SocketStream, after_s: float) -> Response | None:
    parser = ResponseParser()
    with trio.move_on_after(after_s):
        response, _ = await _next_answer(stream, parser)
        return response
    await stream.send_eof()
    response, has_begun = await _next_answer(stream, parser)
    if response is None and has_begun:
        raise WireError("the answer ends in its middle")
    return response


async def _next_answer(
    stream: trio.SocketStream, parser: ResponseParser
) -> tuple[Response | None, bool]:
    """The answer, or None at the end of the stream; and whether anything of one had come."""
    while True:
        data = await stream.receive_some(_READ_BYTES)
        if not data:
            return None, not parser.is_idle
        response = parser.feed(bytes(data))
        if response is not None:
            return response, True
