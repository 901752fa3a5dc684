"""Answers that are written before their handler ends."""

from __future__ import annotations

import pytest
import trio

from atleastonce.system.http.answer import Answer
from atleastonce.system.http.framing import Request
from atleastonce.system.http.server import ClientConnection, Delivery, HttpServer

from .streams import get, read_all, read_until, socket_stream_pair


class Early:
    """A handler that answers before it ends, as soon as it is told to."""

    def __init__(self, body: bytes) -> None:
        self.answer = Answer(200, body)
        self.begun: list[bool] = []
        self.lost: list[str] = []
        self.came, self.told = trio.Event(), trio.Event()

    async def handle(self, request: Request, connection: ClientConnection) -> Delivery:
        self.came.set()
        await self.told.wait()
        self.came, self.told = trio.Event(), trio.Event()
        self.begun.append(connection.answer_now(self.answer))
        await trio.sleep(0.01)
        return Delivery(self.answer, lambda: self.lost.append(request.target), self.begun[-1])


@pytest.mark.parametrize("size", [1, 8_000_000])
def test_an_answer_written_before_the_handler_ends_comes_once_and_whole(size: int) -> None:
    early = Early(b"x" * size)

    async def main() -> None:
        client, side = socket_stream_pair()
        async with client, trio.open_nursery() as nursery:
            nursery.start_soon(HttpServer(early.handle).serve, side)
            for _ in range(2):
                early.told.set()
                await client.send_all(get("/early"))
                text = await read_until(client, b"x" * size)
                assert text.count(b"200 OK") == 1
                assert len(text.partition(b"\r\n\r\n")[2]) == size
            early.told.set()
            await client.send_all(get("/early", "Connection: close"))
            assert (await read_all(client)).endswith(b"\r\n\r\n" + b"x" * size)

    trio.run(main)
    assert early.begun == [True, True, False]
    assert early.lost == []


def test_nothing_is_written_early_to_a_client_that_has_sent_more_or_hung_up() -> None:
    early = Early(b"x")

    async def main() -> None:
        client, side = socket_stream_pair()
        server = HttpServer(early.handle)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(server.serve, side)
            await client.send_all(get("/1"))
            await early.came.wait()
            await client.send_all(get("/2"))
            early.told.set()
            await read_until(client, b"x")
            await early.came.wait()
            await client.aclose()
            early.told.set()
            with trio.fail_after(30):
                await server.wait_empty()

    trio.run(main)
    assert early.begun == [False, False]
    assert early.lost == ["/2"]
