"""The proxy's rules on real connections over loopback."""

from __future__ import annotations

import pytest
import trio

from atleastonce.nemesis.links import LinkRule
from atleastonce.nemesis.proxy.control import Plan, Way
from atleastonce.nemesis.proxy.proxying import Proxy

from .proxy_rig import BACK, THERE, free_port, is_silent, read, rig, until

CUT = LinkRule(drop=True)


async def see_reset(stream: trio.SocketStream) -> None:
    with pytest.raises(trio.BrokenResourceError) as caught:
        await read(stream, 1)
    assert isinstance(caught.value.__cause__, ConnectionResetError), caught.value


def test_without_rules_bytes_and_ends_pass_both_ways() -> None:
    async def main() -> None:
        async with rig() as here, await here.dial() as stream:
            await stream.send_all(b"hello")
            assert await read(stream, 5) == b"hello"
            await stream.send_eof()
            await until(lambda: here.ended == ["eof"])
            assert await stream.receive_some(1) == b""

    trio.run(main)


def test_a_cut_holds_one_direction_and_not_the_other() -> None:
    async def main() -> None:
        async with rig() as here, await here.dial() as stream:
            assert not here.begin(CUT, THERE)
            await stream.send_all(b"lost?")
            await until(lambda: here.counts().dropped > 0)
            await here.accepted[0].send_all(b"news")
            assert await read(stream, 4) == b"news"
            assert not here.received
            here.end()
            assert await read(stream, 5) == b"lost?"

    trio.run(main)


def test_a_cut_that_outlasts_its_limit_resets_what_waited() -> None:
    async def main() -> None:
        async with rig() as here, await here.dial() as stream:
            here.begin(LinkRule(drop=True, reset_after_s=0.01), THERE, BACK)
            await stream.send_all(b"stale")
            await until(lambda: here.counts().dropped > 0)
            await trio.sleep(0.02)
            here.end()
            await until(lambda: here.ended == ["reset"])
            assert not here.received
            assert here.counts().resets == 1

    trio.run(main)


@pytest.mark.parametrize("pair", [THERE, BACK])
def test_new_connections_are_not_answered_while_either_way_is_cut(pair: tuple[str, str]) -> None:
    async def main() -> None:
        async with rig() as here:
            here.begin(CUT, pair)
            async with await trio.open_tcp_stream(*here.way.listen) as dialled:
                await until(lambda: here.counts(pair).dropped > 0)
                assert not here.accepted
                here.end()
                await until(lambda: len(here.accepted) == 1)
                await dialled.send_all(b"late")
                assert await read(dialled, 4) == b"late"

    trio.run(main)


def test_what_a_connection_made_during_a_cut_has_sent_is_never_delivered() -> None:
    async def main() -> None:
        async with rig() as here:
            here.begin(CUT, THERE)
            dialled = await trio.open_tcp_stream(*here.way.listen)
            await dialled.send_all(b"too early")
            await until(lambda: here.counts().dropped > 0)
            here.end()
            async with dialled:
                with pytest.raises(trio.BrokenResourceError):
                    await read(dialled, 1)
            assert not here.accepted
            assert not here.received

    trio.run(main)


def test_the_stricter_of_two_faults_holds_until_both_have_ended() -> None:
    async def main() -> None:
        async with rig() as here, await here.dial() as stream:
            here.begin(CUT, THERE, fault="a")
            here.begin(CUT, THERE, fault="b")
            await stream.send_all(b"x")
            here.end("a")
            assert await is_silent(stream)
            here.end("b")
            assert await read(stream, 1) == b"x"

    trio.run(main)


def test_a_reset_of_both_ends_reaches_both() -> None:
    async def main() -> None:
        async with rig() as here, await here.dial() as stream:
            here.begin(LinkRule(reset="both"))
            await until(lambda: here.ended == ["reset"])
            await see_reset(stream)
            assert here.counts().resets == 1

    trio.run(main)


def test_a_connection_that_is_reset_while_it_is_cut_ends_in_good_order() -> None:
    async def main() -> None:
        async with rig() as here, await here.dial() as stream:
            here.begin(CUT, THERE, BACK, fault="cut")
            await stream.send_all(b"x")
            await until(lambda: here.counts(THERE, "cut").dropped > 0)
            here.begin(LinkRule(reset="both"), fault="reset")
            await until(lambda: here.ended == ["reset"])
            here.end("reset")
            here.end("cut")
            await (await here.dial()).aclose()

    trio.run(main)


def test_a_reset_of_one_end_is_news_to_the_other_when_it_sends() -> None:
    async def main() -> None:
        async with rig() as here, await here.dial() as stream:
            here.begin(LinkRule(reset="one"))
            await until(lambda: here.ended == ["reset"])
            assert await is_silent(stream)
            await stream.send_all(b"anybody?")
            await see_reset(stream)

    trio.run(main)


def test_half_open_swallows_what_the_other_end_sends_until_the_fault_ends() -> None:
    async def main() -> None:
        async with rig() as here, await here.dial() as stream:
            here.begin(LinkRule(half_open=True))
            await until(lambda: here.ended == ["eof"])
            await stream.send_all(b"anybody?")
            assert await is_silent(stream)
            assert here.counts().bytes == len(b"anybody?")
            here.end()
            await see_reset(stream)

    trio.run(main)


def test_refusal_is_seen_by_a_dialler_and_ends() -> None:
    async def main() -> None:
        async with rig() as here:
            here.begin(LinkRule(refuse=True))
            refused = False
            try:
                await trio.open_tcp_stream(*here.way.listen)
            except OSError:
                refused = True
            assert refused
            await until(lambda: here.counts().refused > 0)
            here.end()
            await (await here.dial()).aclose()

    trio.run(main)


def test_a_delay_is_kept_in_order_and_the_end_comes_last() -> None:
    async def main() -> None:
        async with rig() as here, await here.dial() as stream:
            here.begin(LinkRule(delay_ms=40, jitter_ms=30))
            begun = trio.current_time()
            for number in range(20):
                await stream.send_all(b"%02d" % number)
                await trio.sleep(0.001)
            await stream.send_eof()
            told = await read(stream, 40)
            assert told == b"".join(b"%02d" % number for number in range(20))
            assert trio.current_time() - begun >= 0.01
            assert here.counts().delayed > 0
            await until(lambda: here.ended == ["eof"])

    trio.run(main)


def test_bandwidth_is_a_bound_for_all_connections_of_a_link_together() -> None:
    async def main() -> None:
        async with rig() as here, await here.dial() as one, await here.dial() as other:
            here.begin(LinkRule(rate_bytes_s=100_000))
            begun = trio.current_time()
            await one.send_all(b"x" * 10_000)
            await other.send_all(b"y" * 10_000)
            await until(lambda: len(here.received) == 20_000)
            assert trio.current_time() - begun >= 0.15

    trio.run(main)


def test_a_target_that_is_down_resets_the_dialler() -> None:
    async def main() -> None:
        port = free_port()
        way = Way("n1", "n2", "client", ("127.77.1.2", port), ("127.0.0.1", port))
        proxy = Proxy(Plan([way], "", 1, 0))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(proxy.run)
            async with await trio.open_tcp_stream(*way.listen) as stream:
                with pytest.raises(trio.BrokenResourceError):
                    await read(stream, 1)
            nursery.cancel_scope.cancel()

    trio.run(main)


def test_rules_that_a_stream_cannot_have_are_refused_with_a_reason() -> None:
    async def main() -> None:
        async with rig() as here:
            assert "needs packets" in here.begin(LinkRule(loss=0.1))
            assert "choose from" in here.begin(LinkRule(drop=True, only="gossip"))
            assert "no link from n1 to n9" in here.begin(CUT, ("n1", "n9"))

    trio.run(main)
