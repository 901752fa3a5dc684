"""Long polls at high watermarks: what counts as growth, what is asked again, and how soon."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest
import trio
from trio.testing import MockClock

from atleastonce.system.jobs.payload import partition_of
from atleastonce.system.supervisor.backlog_watch import (
    LANES_MAX,
    PARK_S,
    PROBE_S,
    BacklogWatch,
    lanes_of,
)
from atleastonce.system.supervisor.logbook import Logbook

from .stub_broker import StubBroker

LANE = ("mail", "p-0001")


def watched(
    play: Callable[[StubBroker, list[tuple[float, set[str]]]], Awaitable[None]],
    broker: StubBroker,
    partitions: int = 2,
) -> list[tuple[float, set[str]]]:
    """Play something before a watch of two queues; return what it told, and when."""
    told: list[tuple[float, set[str]]] = []

    async def go() -> None:
        start_s = trio.current_time()
        watch = BacklogWatch(
            broker.client,
            lanes_of(("mail", "news"), partitions),
            1.0,
            lambda queues: told.append((trio.current_time() - start_s, queues)),
            Logbook("test", 2),
        )
        async with trio.open_nursery() as nursery:
            nursery.start_soon(watch.keep)
            await play(broker, told)
            nursery.cancel_scope.cancel()

    trio.run(go, clock=MockClock(autojump_threshold=0))
    return told


def test_the_lanes_are_the_stripes_that_jobs_go_to() -> None:
    lanes = lanes_of(("mail", "news", "mail"), 4)
    assert len(lanes) == 8
    assert {partition_of(str(number), 4) for number in range(40)} == {lane[1] for lane in lanes}


def test_what_was_there_before_is_no_news_and_what_comes_is() -> None:
    broker = StubBroker(marks={LANE: 7, ("news", "p-0000"): 3})

    async def play(broker: StubBroker, told: list[tuple[float, set[str]]]) -> None:
        await trio.sleep(5)
        assert told == []
        broker.marks[LANE] = 8
        broker.change()
        await trio.sleep(5)

    ((at_s, queues),) = watched(play, broker)
    assert at_s == pytest.approx(5, abs=0.1)
    assert queues == {"mail"}


def test_the_first_message_of_an_unwritten_partition_is_news() -> None:
    broker = StubBroker(marks={LANE: 7, ("news", "p-0000"): 3})

    async def play(broker: StubBroker, told: list[tuple[float, set[str]]]) -> None:
        await trio.sleep(1)
        broker.marks["mail", "p-0000"] = 1
        broker.change()
        await trio.sleep(1)

    assert [queues for _, queues in watched(play, broker)] == [{"mail"}]


def test_a_steady_stream_is_told_once_a_second_and_lost_never() -> None:
    broker = StubBroker(marks={LANE: 7, ("news", "p-0000"): 3})

    async def play(broker: StubBroker, told: list[tuple[float, set[str]]]) -> None:
        for _ in range(100):
            await trio.sleep(0.1)
            broker.marks[LANE] += 1
            broker.change()
        await trio.sleep(2)

    told = watched(play, broker)
    assert 9 <= len(told) <= 12
    assert len(broker.asked) <= 14


def test_a_queue_that_is_not_there_is_looked_for_every_half_minute() -> None:
    broker = StubBroker(marks={LANE: 7})

    async def play(broker: StubBroker, told: list[tuple[float, set[str]]]) -> None:
        await trio.sleep(10)
        broker.marks["news", "p-0000"] = 1
        await trio.sleep(PROBE_S + PARK_S)

    ((at_s, queues),) = watched(play, broker)
    assert queues == {"news"}
    assert PROBE_S <= at_s <= PROBE_S + 1


def test_a_node_that_is_behind_is_not_asked_without_pause() -> None:
    broker = StubBroker(marks={LANE: 7, ("news", "p-0000"): 3})

    async def play(broker: StubBroker, told: list[tuple[float, set[str]]]) -> None:
        await trio.sleep(1)
        broker.marks[LANE] = 5
        broker.change()
        await trio.sleep(PARK_S)

    assert watched(play, broker) == []
    assert len(broker.asked) <= 4


def test_a_broker_that_fails_is_asked_again_after_a_while() -> None:
    broker = StubBroker(marks={LANE: 7, ("news", "p-0000"): 3}, fails=0)

    async def play(broker: StubBroker, told: list[tuple[float, set[str]]]) -> None:
        await trio.sleep(12)
        assert len(broker.asked) == 3
        broker.fails = None
        await trio.sleep(5)
        broker.marks[LANE] = 9
        broker.change()
        await trio.sleep(1)

    assert [queues for _, queues in watched(play, broker)] == [{"mail"}]


@pytest.mark.parametrize("status", [401, 403, 404])
def test_a_broker_that_turns_it_away_is_left_alone(status: int) -> None:
    broker = StubBroker(marks={LANE: 7}, fails=status)

    async def play(broker: StubBroker, told: list[tuple[float, set[str]]]) -> None:
        await trio.sleep(60)

    assert watched(play, broker) == []
    assert broker.asked == ["fetch"]


def test_many_lanes_are_split_over_several_long_polls() -> None:
    broker = StubBroker(marks={("mail", "p-0000"): 1, ("news", "p-0000"): 1})

    async def play(broker: StubBroker, told: list[tuple[float, set[str]]]) -> None:
        await trio.sleep(2)
        assert broker.parked == 2

    watched(play, broker, partitions=LANES_MAX // 2 + 1)
