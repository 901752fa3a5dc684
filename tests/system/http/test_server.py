"""Connections: order, keep-alive, limits of time and size, clients that hang up."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest
import trio
import trio.testing

from atleastonce.system.http.answer import Answer
from atleastonce.system.http.framing import HttpLimits, Request
from atleastonce.system.http.server import ClientConnection, Delivery, HttpServer

from .streams import Stream, get, read_all, read_until, socket_stream_pair

LIMITS = HttpLimits(body_bytes_max=100_000)


async def echo(request: Request, client: ClientConnection) -> Delivery:
    """Answer with the target and the body."""
    await trio.lowlevel.checkpoint()
    return Delivery(Answer(200, f"{request.target} {len(request.body)}".encode(), "text/plain"))


Handler = Callable[[Request, ClientConnection], Awaitable[Delivery]]


def serve(
    scenario: Callable[[Stream, HttpServer], Awaitable[None]],
    handler: Handler = echo,
    limits: HttpLimits = LIMITS,
) -> None:
    """Run a scenario against a server on virtual time."""

    async def main() -> None:
        server = HttpServer(handler, limits)
        client, side = trio.testing.memory_stream_pair()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(server.watch)
            nursery.start_soon(server.serve, side)
            with trio.fail_after(1000):
                await scenario(client, server)
            nursery.cancel_scope.cancel()

    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))


def test_a_connection_serves_many_requests_in_order() -> None:
    async def scenario(client: Stream, server: HttpServer) -> None:
        await client.send_all(get("/1") + get("/2") + get("/3", "Connection: close") + get("/4"))
        text = await read_all(client)
        assert [text.find(target) for target in (b"/1 0", b"/2 0", b"/3 0")] == sorted(
            text.find(target) for target in (b"/1 0", b"/2 0", b"/3 0")
        )
        assert text.count(b"200 OK") == 3
        assert text.count(b"connection: close") == 1

    serve(scenario)


def test_an_idle_connection_is_closed_without_a_word() -> None:
    async def scenario(client: Stream, server: HttpServer) -> None:
        await client.send_all(get("/1"))
        await read_until(client, b"/1 0")
        began = trio.current_time()
        assert await read_all(client) == b""
        assert 74 < trio.current_time() - began < 76

    serve(scenario)


def test_slow_headers_are_408_however_steadily_they_trickle() -> None:
    async def scenario(client: Stream, server: HttpServer) -> None:
        began = trio.current_time()

        async def trickle() -> None:
            for byte in b"GET / HTTP/1.1\r\n" * 10:
                await client.send_all(bytes([byte]))
                await trio.sleep(1)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(trickle)
            text = await read_until(client, b"}")
            assert b" 408 " in text
            assert 9 < trio.current_time() - began < 12
            nursery.cancel_scope.cancel()

    serve(scenario)


def test_a_body_may_take_long_while_it_makes_progress() -> None:
    async def scenario(client: Stream, server: HttpServer) -> None:
        await client.send_all(b"POST /b HTTP/1.1\r\nHost: a\r\nContent-Length: 50000\r\n\r\n")
        for _ in range(5):
            await trio.sleep(20)
            await client.send_all(bytes(10_000))
        await read_until(client, b"/b 50000")
        await client.send_all(b"POST /b HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nh")
        text = await read_until(client, b"}")
        assert b" 408 " in text

    serve(scenario, limits=HttpLimits(body_rate_min=500))


def test_a_body_that_trickles_for_ever_is_408() -> None:
    async def scenario(client: Stream, server: HttpServer) -> None:
        await client.send_all(b"POST /b HTTP/1.1\r\nHost: a\r\nContent-Length: 50000\r\n\r\n")
        began = trio.current_time()
        async with trio.open_nursery() as nursery:

            async def trickle() -> None:
                while True:
                    await trio.sleep(5)
                    await client.send_all(b"x")

            nursery.start_soon(trickle)
            text = await read_until(client, b"}")
            nursery.cancel_scope.cancel()
        assert b" 408 " in text
        assert 30 <= trio.current_time() - began <= 40

    serve(scenario)


def test_100_continue_is_sent_before_the_body_is_awaited() -> None:
    async def scenario(client: Stream, server: HttpServer) -> None:
        head = b"POST /b HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n"
        await client.send_all(head)
        assert await read_until(client, b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
        await client.send_all(b"hi")
        assert b"100 Continue" not in await read_until(client, b"/b 2")

    serve(scenario)


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100001\r\n\r\n", 413),
        (b"GET / HTTP/1.1\r\nHost: a\r\nX: " + b"y" * 33_000 + b"\r\n\r\n", 431),
        (b"\x16\x03\x01\x02\x00", 405),
        (b"GET / HTTP/1.1\r\n\r\n", 400),
        (b"GET / HTTP/9.9\r\nHost: a\r\n\r\n", 400),
    ],
)
def test_what_cannot_be_served_is_answered_and_closed(sent: bytes, status: int) -> None:
    async def scenario(client: Stream, server: HttpServer) -> None:
        await client.send_all(get("/ok") + sent)
        text = await read_until(client, b"}" if status != 413 else b"\n")
        await client.send_eof()
        await read_all(client)
        assert b"/ok 0" in text
        assert b"HTTP/1.1 %d " % status in text
        assert text.count(b"connection: close") == 1

    serve(scenario)


def test_head_gets_no_body() -> None:
    async def scenario(client: Stream, server: HttpServer) -> None:
        await client.send_all(b"HEAD /h HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
        text = await read_all(client)
        assert b"content-length: 4" in text
        assert text.endswith(b"\r\n\r\n")

    serve(scenario)


def test_a_handler_learns_that_its_client_hung_up_and_keeps_what_was_pipelined() -> None:
    hung_up: list[float] = []

    async def park(request: Request, client: ClientConnection) -> Delivery:
        if request.target == "/park":
            with trio.move_on_after(5):
                await client.wait_gone()
                hung_up.append(trio.current_time())
        return await echo(request, client)

    async def scenario(client: Stream, server: HttpServer) -> None:
        await client.send_all(get("/park"))
        await trio.sleep(1)
        await client.send_all(get("/next"))
        await read_until(client, b"/next 0")
        assert hung_up == []
        await client.send_all(get("/park"))
        await trio.sleep(1)
        now = trio.current_time()
        await client.aclose()
        await trio.testing.wait_all_tasks_blocked()
        assert hung_up == [now]

    serve(scenario, park)


def test_closing_ends_idle_connections_at_once_and_others_behind_their_answer() -> None:
    async def slow(request: Request, client: ClientConnection) -> Delivery:
        await trio.sleep(3)
        return await echo(request, client)

    async def main() -> None:
        server = HttpServer(slow)
        idle, idle_side = trio.testing.memory_stream_pair()
        busy, busy_side = trio.testing.memory_stream_pair()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(server.serve, idle_side)
            nursery.start_soon(server.serve, busy_side)
            await busy.send_all(get("/busy"))
            await trio.sleep(1)
            server.close_idle()
            assert await read_all(idle) == b""
            assert trio.current_time() < 2
            text = await read_all(busy)
            assert b"/busy 0" in text
            assert b"connection: close" in text
            await server.wait_empty()

    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))


def test_an_answer_that_nobody_takes_is_reported_lost() -> None:
    """On a real socket, because only the kernel knows that the client has gone."""
    lost: list[str] = []

    async def main() -> None:
        client, side = socket_stream_pair()
        answered = trio.Event()

        async def handler(request: Request, connection: ClientConnection) -> Delivery:
            if request.target == "/lost":
                await client.aclose()
            answered.set()
            return Delivery(Answer(200, b"x"), lambda: lost.append(request.target))

        server = HttpServer(handler)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(server.serve, side)
            await client.send_all(get("/kept"))
            await read_until(client, b"x")
            assert lost == []
            await client.send_all(get("/lost"))
            await server.wait_empty()

    trio.run(main)
    assert lost == ["/lost"]


def test_a_long_pipeline_on_a_socket_keeps_nobody_else_waiting() -> None:
    """On real sockets, where neither reading nor writing makes the server's task wait."""
    order: list[str] = []

    async def main() -> None:
        async def handler(request: Request, connection: ClientConnection) -> Delivery:
            order.append(request.target)
            return Delivery(Answer(200, b"x"))

        server = HttpServer(handler)
        many, many_side = socket_stream_pair()
        one, one_side = socket_stream_pair()
        await many.send_all(get("/many") * 200)
        await one.send_all(get("/one"))
        async with many, one, trio.open_nursery() as nursery:
            nursery.start_soon(server.serve, many_side)
            nursery.start_soon(server.serve, one_side)
            await read_until(one, b"x")
            nursery.cancel_scope.cancel()

    trio.run(main)
    assert order.index("/one") < 10, order


def test_a_large_body_and_a_large_answer_pass_whole_through_a_socket() -> None:
    async def main() -> None:
        async def handler(request: Request, connection: ClientConnection) -> Delivery:
            return Delivery(Answer(200, request.body[::-1]))

        server = HttpServer(handler)
        client, side = socket_stream_pair()
        body = bytes(range(256)) * 20_000
        head = f"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: {len(body)}\r\n\r\n".encode()
        async with client, trio.open_nursery() as nursery:
            nursery.start_soon(server.serve, side)
            nursery.start_soon(client.send_all, head + body)
            assert (await read_until(client, body[::-1][-300:])).endswith(b"\r\n\r\n" + body[::-1])
            nursery.cancel_scope.cancel()

    trio.run(main)


def test_a_client_that_does_not_read_is_given_up() -> None:
    lost: list[str] = []

    async def big(request: Request, connection: ClientConnection) -> Delivery:
        await trio.lowlevel.checkpoint()
        return Delivery(Answer(200, b"x" * 100), lambda: lost.append(request.target))

    async def main() -> None:
        client, side = trio.testing.lockstep_stream_pair()
        server = HttpServer(big)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(server.serve, side)
            await client.send_all(get("/big"))
            await server.wait_empty()

    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))
    assert lost == ["/big"]


def test_a_connection_too_many_is_told_so_and_closed() -> None:
    turned_away: list[None] = []

    async def main() -> None:
        limits = HttpLimits(connections_max=2)
        server = HttpServer(echo, limits, lambda: turned_away.append(None))
        async with trio.open_nursery() as nursery:
            kept = []
            for _ in range(2):
                client, side = trio.testing.memory_stream_pair()
                nursery.start_soon(server.serve, side)
                kept.append(client)
            await trio.testing.wait_all_tasks_blocked()
            extra, side = trio.testing.memory_stream_pair()
            nursery.start_soon(server.serve, side)
            await extra.send_all(get("/late"))
            await extra.send_eof()
            answer = await read_all(extra)
            assert answer.startswith(b"HTTP/1.1 429 ")
            assert b"Retry-After: 1\r\n" in answer
            assert b"connection: close" in answer
            await kept[0].send_all(get("/a", "Connection: close"))
            assert (await read_all(kept[0])).endswith(b"/a 0")
            again, side = trio.testing.memory_stream_pair()
            nursery.start_soon(server.serve, side)
            await again.send_all(get("/b", "Connection: close"))
            assert (await read_all(again)).endswith(b"/b 0")
            nursery.cancel_scope.cancel()

    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))
    assert len(turned_away) == 1


def test_bodies_on_their_way_are_bounded_together() -> None:
    async def main() -> None:
        server = HttpServer(echo, HttpLimits(receiving_bytes_max=1000))
        head = b"POST /x HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: 2000\r\n\r\n"
        async with trio.open_nursery() as nursery:
            clients = []
            for _ in range(2):
                client, side = trio.testing.memory_stream_pair()
                nursery.start_soon(server.serve, side)
                clients.append(client)
            first, second = clients
            await first.send_all(head + bytes(900))
            await trio.testing.wait_all_tasks_blocked()
            await second.send_all(head + bytes(200))
            await second.send_eof()
            answer = await read_all(second)
            assert answer.startswith(b"HTTP/1.1 429 ")
            assert b"Retry-After: 1\r\n" in answer
            # Alone, a body may be larger than that.
            await first.send_all(bytes(1100))
            assert (await read_all(first)).endswith(b"/x 2000")
            again, side = trio.testing.memory_stream_pair()
            nursery.start_soon(server.serve, side)
            await again.send_all(head + bytes(2000))
            assert (await read_all(again)).endswith(b"/x 2000")

    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))
