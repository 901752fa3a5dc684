"""Subscription of groups, delayed processing and window buffers."""

from __future__ import annotations

from typing import Literal

from atleastonce.system.broker.commands import QUEUE_MODE, Pop
from atleastonce.system.broker.replies import PopReply

from .broker_driver import SECOND_US, Driver, named


def subscribe(
    driver: Driver,
    mode: Literal["all", "new", "from"],
    from_us: int = 0,
    group: str = "g",
    partition: str | None = None,
) -> list[str]:
    command = Pop(
        request_id="",
        queue="q",
        partition=partition,
        group=group,
        partitions=0,
        auto_ack=True,
        subscribe=mode,
        subscribe_from_us=from_us,
    )
    if not driver.machine.can_pop(command, driver.clock_us):
        return []
    return named(driver.ask(command, PopReply))


def test_all_starts_at_the_oldest_retained_message(driver: Driver) -> None:
    driver.push("a", "b")
    assert subscribe(driver, "all") == ["a", "b"]


def test_new_skips_the_backlog_and_gets_what_comes_after(driver: Driver) -> None:
    driver.push("old")
    driver.advance(1)
    assert subscribe(driver, "new") == []
    driver.advance(1)
    driver.push("next")
    assert subscribe(driver, "new") == ["next"]


def test_the_first_mode_of_a_group_is_the_one_that_counts(driver: Driver) -> None:
    driver.push("old")
    driver.advance(1)
    subscribe(driver, "new")
    assert subscribe(driver, "all") == []


def test_a_partition_made_after_the_registration_is_not_skipped(driver: Driver) -> None:
    driver.push("old", partition="p")
    driver.advance(1)
    subscribe(driver, "new")
    driver.push("first", partition="late")
    assert subscribe(driver, "new") == ["first"]


def test_from_an_instant_starts_at_the_first_message_at_or_after_it(driver: Driver) -> None:
    driver.push("a")
    driver.advance(10)
    cutoff_us = driver.clock_us
    driver.push("b", "c")
    assert subscribe(driver, "from", cutoff_us) == ["b", "c"]


def test_queue_mode_is_never_seeded_forward(driver: Driver) -> None:
    driver.push("a")
    driver.advance(1)
    assert subscribe(driver, "new", group=QUEUE_MODE) == ["a"]


def test_a_pinned_pop_does_not_register_its_group(driver: Driver) -> None:
    driver.push("a", partition="p")
    driver.push("b", partition="r")
    driver.advance(1)
    assert subscribe(driver, "all", partition="p") == ["a"]
    assert subscribe(driver, "new") == []  # registers now, and p keeps its cursor
    driver.push("c", partition="p")
    driver.push("d", partition="r")
    assert subscribe(driver, "new") == ["c", "d"]


def test_delayed_processing_hides_what_is_too_young(driver: Driver) -> None:
    driver.configure(delayedProcessing=10)
    driver.push("a")
    driver.advance(5)
    driver.push("b")
    assert driver.names() == []
    driver.advance(5)
    assert driver.names() == ["a"]


def test_the_end_of_a_delay_is_announced(driver: Driver) -> None:
    driver.configure(delayedProcessing=10)
    driver.pop()
    driver.push("a")
    due_us = driver.machine.now_us + 10 * SECOND_US
    assert driver.machine.next_due_us() == due_us
    driver.clock_us = due_us - 1
    assert not driver.can_pop()
    assert driver.machine.due_queues(driver.clock_us) == []
    driver.clock_us = due_us
    assert driver.can_pop()
    assert driver.machine.due_queues(driver.clock_us) == ["q"]


def test_a_window_buffer_keeps_a_partition_silent_until_it_is_quiet(driver: Driver) -> None:
    driver.configure(windowBuffer=10)
    driver.push("a")
    driver.advance(8)
    driver.push("b")
    driver.advance(8)
    assert driver.names() == []
    assert driver.machine.next_due_us(driver.clock_us) is not None
    driver.advance(2)
    assert driver.names() == ["a", "b"]


def test_ending_a_hold_by_configure_wakes_the_queue(driver: Driver) -> None:
    driver.configure(windowBuffer=1000)
    driver.pop()
    driver.push("a")
    driver.machine.take_touched()
    driver.configure(windowBuffer=0)
    assert driver.machine.take_touched() == {"q"}
    assert driver.names() == ["a"]


def test_starting_a_hold_by_configure_takes_readiness_away(driver: Driver) -> None:
    driver.push("a")
    driver.pop(group="g")
    driver.configure(delayedProcessing=100)
    assert driver.names(group="other") == []


def test_touched_names_pushed_and_released_queues_once(driver: Driver) -> None:
    driver.push("a")
    assert driver.machine.take_touched() == {"q"}
    reply = driver.pop()
    assert driver.machine.take_touched() == set()
    driver.ack(("a", "retry"), lease=reply.lease_id)
    assert driver.machine.take_touched() == {"q"}
    assert driver.machine.take_touched() == set()
