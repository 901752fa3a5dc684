"""Timers: upsert, fire, cancel, read."""

from __future__ import annotations

from atleastonce.system.broker.commands import (
    CancelTimer,
    DeleteQueue,
    FireTimers,
    ScheduleTimer,
    TimerOperation,
    Timers,
)
from atleastonce.system.broker.queries import TimerCount, TimerGet, TimerList
from atleastonce.system.broker.replies import (
    DeleteQueueReply,
    FireReply,
    TimerCountReply,
    TimerListReply,
    TimerReply,
    TimerResult,
    TimersReply,
)

from .broker_driver import SECOND_US, Driver


def schedule(
    driver: Driver, key: str, seconds: float, name: str | None = None, queue: str = "q"
) -> TimerResult:
    operation = ScheduleTimer(queue, key, int(seconds * 1000), name or key, b"7", "p")
    return apply(driver, operation)


def apply(driver: Driver, operation: TimerOperation, request_id: str = "") -> TimerResult:
    return driver.ask(Timers(request_id, (operation,)), TimersReply).results[0]


def count(driver: Driver, prefix: str = "") -> int:
    reply = driver.machine.read(TimerCount("q", prefix), driver.clock_us)
    assert isinstance(reply, TimerCountReply)
    return reply.count


def test_a_timer_fires_as_a_message_with_its_promised_id(driver: Driver) -> None:
    promised = schedule(driver, "k", 5, "txn")
    assert promised.deliver_us == driver.machine.now_us + 5 * SECOND_US
    driver.advance(4.9)
    assert driver.fire() == 0
    driver.advance(0.2)
    assert driver.machine.due_timers(driver.clock_us) == FireTimers()
    assert driver.fire() == 1
    (message,) = driver.pop().runs[0].messages
    assert (message.message_id, message.transaction_id) == (promised.message_id, "txn")
    assert message.payload == b"7"
    assert count(driver) == 0


def test_the_next_timer_is_announced(driver: Driver) -> None:
    schedule(driver, "late", 20)
    early = schedule(driver, "early", 10)
    assert driver.machine.next_due_us() == early.deliver_us
    assert driver.machine.due_timers(driver.clock_us) is None


def test_a_second_schedule_is_an_upsert(driver: Driver) -> None:
    schedule(driver, "k", 5, "old")
    again = schedule(driver, "k", 50, "new")
    assert again.status == "rescheduled"
    driver.advance(10)
    assert driver.fire() == 0
    driver.advance(50)
    assert driver.fire() == 1
    assert driver.names() == ["new"]


def test_cancel_removes_and_a_second_cancel_is_absent(driver: Driver) -> None:
    schedule(driver, "k", 5, "txn")
    cancelled = apply(driver, CancelTimer("q", "k"))
    assert (cancelled.ok, cancelled.status, cancelled.transaction_id) == (True, "cancelled", "txn")
    absent = apply(driver, CancelTimer("q", "k", "mine"))
    assert (absent.ok, absent.status, absent.transaction_id) == (False, "absent", "mine")
    driver.advance(10)
    assert driver.fire() == 0


def test_a_delay_of_zero_or_less_fires_at_once(driver: Driver) -> None:
    schedule(driver, "zero", 0)
    schedule(driver, "past", -10)
    assert driver.fire() == 2


def test_timers_fire_in_the_order_of_their_instants(driver: Driver) -> None:
    for key, seconds in (("c", 3), ("a", 1), ("b", 2)):
        schedule(driver, key, seconds)
    driver.advance(5)
    driver.fire()
    assert driver.names() == ["a", "b", "c"]


def test_a_fire_is_deduplicated_and_the_timer_gone(driver: Driver) -> None:
    driver.push("txn")
    schedule(driver, "k", 1, "txn")
    driver.advance(2)
    assert driver.fire() == 1
    assert driver.names() == ["txn"]
    assert count(driver) == 0


def test_one_command_fires_at_most_its_limit(driver: Driver) -> None:
    for number in range(5):
        schedule(driver, f"k{number}", 1)
    driver.advance(2)
    assert driver.ask(FireTimers(3), FireReply).fired == 3
    assert driver.machine.due_timers(driver.clock_us) is not None
    assert driver.fire() == 2


def test_a_repeated_request_gets_its_first_answer(driver: Driver) -> None:
    operation = ScheduleTimer("q", "k", 0, "txn", b"1")
    first = apply(driver, operation, "same")
    driver.fire()
    assert apply(driver, operation, "same") == first
    assert count(driver) == 0


def test_list_is_sorted_by_key_and_paged(driver: Driver) -> None:
    for key in ("b/2", "a", "c", "b/1"):
        schedule(driver, key, 60)
    page = driver.machine.read(TimerList("q", limit=2), driver.clock_us)
    assert isinstance(page, TimerListReply)
    assert ([row.key for row in page.rows], page.truncated) == (["a", "b/1"], True)
    rest = driver.machine.read(TimerList("q", after="b/1", limit=2), driver.clock_us)
    assert isinstance(rest, TimerListReply)
    assert ([row.key for row in rest.rows], rest.truncated) == (["b/2", "c"], False)


def test_list_and_count_take_a_prefix(driver: Driver) -> None:
    for key in ("b/2", "a", "c", "b/1"):
        schedule(driver, key, 60)
    page = driver.machine.read(TimerList("q", prefix="b/"), driver.clock_us)
    assert isinstance(page, TimerListReply)
    assert ([row.key for row in page.rows], page.truncated) == (["b/1", "b/2"], False)
    assert (count(driver, "b/"), count(driver), count(driver, "z")) == (2, 4, 0)


def test_get_finds_one_timer_of_its_queue_only(driver: Driver) -> None:
    schedule(driver, "k", 60)
    found = driver.machine.read(TimerGet("q", "k"), driver.clock_us)
    assert isinstance(found, TimerReply)
    assert found.row is not None
    other = driver.machine.read(TimerGet("other", "k"), driver.clock_us)
    assert isinstance(other, TimerReply)
    assert other.row is None


def test_a_timer_outlives_its_queue_and_creates_it_again(driver: Driver) -> None:
    driver.push("a")
    schedule(driver, "k", 1, "txn")
    assert driver.ask(DeleteQueue("", "q"), DeleteQueueReply).existed
    driver.advance(2)
    driver.fire()
    assert driver.names() == ["txn"]
