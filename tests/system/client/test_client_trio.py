"""The client on trio."""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable

import pytest
import trio

from atleastonce.system.client import AsyncClient, BrokerError, ClientOptions, Endpoint, calls

from .scripted_server import Asked, Drop, Hang, Reply, Script, ScriptedServer

Serve = Callable[[Script], ScriptedServer]

PUSHED = Reply(201, b'[{"index":0,"status":"queued","offset":0}]')
PUSH = calls.push([{"queue": "q", "payload": 1}])


def with_client(
    use: Callable[[AsyncClient], Awaitable[None]],
    *servers: ScriptedServer,
    try_timeout_s: float = 5.0,
    deadline_s: float = 10.0,
) -> None:
    async def main() -> None:
        options = ClientOptions(try_timeout_s, deadline_s)
        client = AsyncClient([server.endpoint for server in servers], options)
        try:
            await use(client)
        finally:
            await client.aclose()

    trio.run(main)


def test_lost_answer_is_asked_again_elsewhere_under_the_same_ids(serve: Serve) -> None:
    first, second = serve(lambda _: Drop()), serve(lambda _: PUSHED)

    async def use(client: AsyncClient) -> None:
        answer = await client.call(PUSH)
        assert (answer.answered_by, answer.tries) == (second.endpoint, 2)
        assert first.asked[0].request_id == second.asked[0].request_id
        assert first.asked[0].body == second.asked[0].body

    with_client(use, first, second)


def test_connections_are_kept_and_shared(serve: Serve) -> None:
    server = serve(lambda _: PUSHED)

    async def use(client: AsyncClient) -> None:
        for _ in range(3):
            await client.call(PUSH)
        assert server.connections == 1
        async with trio.open_nursery() as nursery:
            for _ in range(8):
                nursery.start_soon(functools.partial(client.call, PUSH))
        assert len(server.asked) == 11
        assert server.connections <= 8

    with_client(use, server)


def test_cancelled_call_closes_its_connection(serve: Serve) -> None:
    gone: list[str] = []

    def script(asked: Asked) -> Reply | Drop | Hang:
        return Hang() if "pop" in asked.target else PUSHED

    server = serve(script)

    async def use(client: AsyncClient) -> None:
        with trio.move_on_after(0.05):
            await client.pop("q", group="g", wait_s=30.0)
            gone.append("answered")
        assert (await client.call(PUSH)).tries == 1
        assert server.connections == 2
        assert gone == []

    with_client(use, server)


def test_connection_closed_by_a_restarted_node_is_replaced_silently(serve: Serve) -> None:
    server = serve(lambda _: PUSHED)

    async def use(client: AsyncClient) -> None:
        await client.call(PUSH)
        server.drop_connections()
        assert (await client.call(PUSH)).value[0].status == "queued"
        assert server.connections == 2

    with_client(use, server)


def test_silent_node_is_left_after_the_try_timeout(serve: Serve) -> None:
    silent, second = serve(lambda _: Hang()), serve(lambda _: PUSHED)

    async def use(client: AsyncClient) -> None:
        assert (await client.call(PUSH)).answered_by == second.endpoint

    with_client(use, silent, second, try_timeout_s=0.1)


def test_refused_everywhere_is_definite_and_silent_is_not(serve: Serve) -> None:
    silent = serve(lambda _: Hang())

    async def main() -> None:
        listener = trio.socket.socket()
        await listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]
        listener.close()
        refused = AsyncClient([Endpoint("127.0.0.1", port)], ClientOptions(1.0, 0.2))
        with pytest.raises(BrokerError) as definite:
            await refused.call(PUSH)
        assert definite.value.definite
        quiet = AsyncClient([silent.endpoint], ClientOptions(0.1, 0.2))
        with pytest.raises(BrokerError) as unknown:
            await quiet.call(PUSH)
        assert not unknown.value.definite

    trio.run(main)


def test_call_goes_first_to_the_node_that_the_caller_names(serve: Serve) -> None:
    first, second = serve(lambda _: PUSHED), serve(lambda _: PUSHED)

    async def use(client: AsyncClient) -> None:
        assert (await client.call(PUSH, first_endpoint=1)).answered_by == second.endpoint
        assert (await client.call(PUSH)).answered_by == first.endpoint

    with_client(use, first, second)


def test_health_asks_one_node_once(serve: Serve) -> None:
    body = b'{"status":"healthy","node":"n1","raft":{"role":"leader","term":2}}'
    server = serve(lambda _: Reply(200, body))

    async def use(client: AsyncClient) -> None:
        answer = await client.health(server.endpoint)
        assert answer.value.raft.role == "leader"
        assert answer.answered_by == server.endpoint

    with_client(use, server)
