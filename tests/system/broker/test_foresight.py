"""What a leader guesses about pops that are on their way into the log."""

from __future__ import annotations

from atleastonce.system.broker.commands import Configure, Pop, Push, PushItem

from .broker_driver import Driver


def pop(request_id: str = "", partition: str | None = None) -> Pop:
    return Pop(request_id=request_id, queue="q", partition=partition, batch=1, lease_s=60)


def push(*partitions: str) -> Push:
    return Push("", tuple(PushItem("q", name, "", b"1") for name in partitions))


def driver_with_group() -> Driver:
    driver = Driver()
    driver.apply(pop("first"))
    return driver


def made_ready(driver: Driver, pushed: Push, waiting: Pop) -> list[str]:
    return driver.machine.partitions_made_ready(pushed, waiting, driver.clock_us)


def test_a_pop_finds_nothing_behind_as_many_as_there_are_ready_partitions() -> None:
    driver = driver_with_group()
    driver.apply(push("a", "b"))
    found = [driver.machine.can_pop_behind(pop(), ahead, driver.clock_us) for ahead in range(4)]
    assert found == [True, True, False, False]


def test_a_repeated_pop_enters_the_log_behind_any_others() -> None:
    driver = driver_with_group()
    driver.apply(push("a"))
    driver.apply(pop("again"))
    assert driver.machine.can_pop_behind(pop("again"), 9, driver.clock_us)
    assert not driver.machine.can_pop_behind(pop("other"), 0, driver.clock_us)


def test_a_lease_that_has_run_out_counts_as_ready() -> None:
    driver = driver_with_group()
    driver.apply(push("a"))
    driver.apply(pop("holder"))
    driver.advance(61)
    assert driver.machine.can_pop_behind(pop(), 0, driver.clock_us)
    assert not driver.machine.can_pop_behind(pop(), 1, driver.clock_us)


def test_a_push_makes_each_of_its_idle_partitions_ready_once() -> None:
    driver = driver_with_group()
    assert made_ready(driver, push("a", "b", "a"), pop()) == ["a", "b"]
    assert made_ready(driver, push("a", "b"), pop(partition="b")) == ["b"]


def test_a_push_to_what_is_leased_or_ready_makes_nothing_ready() -> None:
    driver = driver_with_group()
    driver.apply(push("held"))
    driver.apply(pop("holder"))
    driver.apply(push("waiting"))
    assert made_ready(driver, push("held", "waiting"), pop()) == []


def test_a_push_to_a_queue_that_holds_messages_back_makes_nothing_ready() -> None:
    driver = driver_with_group()
    driver.apply(Configure("", "q", options={"delayedProcessing": 5}))
    assert made_ready(driver, push("a"), pop()) == []


def test_a_push_for_a_group_that_never_popped_makes_nothing_ready() -> None:
    assert made_ready(Driver(), push("a"), pop()) == []
