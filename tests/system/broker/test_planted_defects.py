"""The two planted defects of the broker do what they say, and only with their names."""

from __future__ import annotations

from atleastonce.system.broker.commands import Pop
from atleastonce.system.broker.machine import Machine
from atleastonce.system.bugs import NO_BUGS, Bugs

from .broker_driver import Driver, attempts


def led(bugs: Bugs) -> Driver:
    """A leader that was elected after it had stored one message."""
    driver = Driver(bugs)
    driver.push("a")
    driver.machine.become_leader()
    return driver


def test_becoming_leader_forgets_nothing() -> None:
    assert led(NO_BUGS).push("a")[0].status == "duplicate"


def test_dedup_lost_on_failover_stores_twice_and_parts_the_replicas() -> None:
    driver = led(frozenset({"dedup-lost-on-failover"}))
    assert driver.push("a")[0].status == "queued"
    assert driver.push("a")[0].status == "duplicate"
    follower = Machine(frozenset({"dedup-lost-on-failover"}))
    for index, data in driver.entries:
        follower.apply(index, data)
    assert follower.digest() != driver.machine.digest()


def test_dedup_lost_on_failover_still_finds_messages_to_ack() -> None:
    driver = led(frozenset({"dedup-lost-on-failover"}))
    assert driver.ack("a", lease=driver.pop().lease_id)[0].success


def test_lease_ignored_on_pop_gives_one_partition_to_two_workers() -> None:
    driver = Driver(frozenset({"lease-ignored-on-pop"}))
    driver.push("a")
    first, second = driver.pop(), driver.pop()
    assert [len(first.runs), len(second.runs)] == [1, 1]
    assert attempts(second) == [2]
    assert "lease" in driver.ack("a", lease=first.lease_id)[0].error
    assert driver.ack("a", lease=second.lease_id)[0].success


def test_lease_ignored_on_pop_claims_a_partition_once_in_one_pop() -> None:
    driver = Driver(frozenset({"lease-ignored-on-pop"}))
    driver.push("a")
    assert driver.machine.can_pop(Pop(request_id="", queue="q"), driver.clock_us)
    assert len(driver.pop(batch=100).runs) == 1
