"""Positions: set inside a transaction, read back, forgotten; one cursor with what consumers ack."""

from __future__ import annotations

from atleastonce.system.broker.administrative import DeleteGroup
from atleastonce.system.broker.commands import AckItem as Item
from atleastonce.system.broker.commands import (
    PushItem,
    Transaction,
    TransactionAck,
    TransactionPush,
)
from atleastonce.system.broker.kv_operations import KvCheck
from atleastonce.system.broker.position_records import (
    GroupPositions,
    PositionResult,
    Positions,
    PositionsReply,
    SetPosition,
)
from atleastonce.system.broker.replies import TransactionReply

from .broker_driver import Driver, named


def put(driver: Driver, *positions: SetPosition, kv: tuple[KvCheck, ...] = ()) -> TransactionReply:
    command = Transaction(driver.request_id(), (), (), (), kv, positions)
    return driver.ask(command, TransactionReply)


def read(driver: Driver, *places: tuple[str, str]) -> list[GroupPositions]:
    reply = driver.machine.read(Positions("g", places or None), driver.clock_us)
    assert isinstance(reply, PositionsReply)
    return list(reply.entries)


def test_a_consumer_goes_on_where_a_position_was_set(driver: Driver) -> None:
    driver.push(*"abcd")
    reply = put(driver, SetPosition("q", "p", "g", 2, "note"))
    assert reply.results == (PositionResult("q", "p", "g", 2),)
    assert read(driver) == [GroupPositions("q", "p", 2, "note")]
    popped = driver.pop(group="g")
    assert named(popped) == ["c", "d"]
    driver.ack("c", lease=popped.lease_id, group="g")
    assert read(driver, ("q", "p")) == [GroupPositions("q", "p", 3, "note")]


def test_a_position_may_go_back_and_voids_the_lease(driver: Driver) -> None:
    driver.push("a", "b")
    lease = driver.pop(group="g").lease_id
    put(driver, SetPosition("q", "p", "g", 0))
    assert "lease" in driver.ack("a", lease=lease, group="g")[0].error
    assert named(driver.pop(group="g")) == ["a", "b"]


def test_a_position_outside_the_log_is_its_nearest_end(driver: Driver) -> None:
    driver.push("a", "b")
    put(driver, SetPosition("q", "p", "g", 99))
    assert read(driver, ("q", "p"))[0].offset == 2
    driver.push("c")
    assert named(driver.pop(group="g")) == ["c"]


def test_a_position_makes_its_partition_and_registers_its_group(driver: Driver) -> None:
    driver.push("a")
    put(driver, SetPosition("q", "new", "g", 0, begins_at_oldest=True))
    assert read(driver) == [GroupPositions("q", "new", 0)]
    assert named(driver.pop(group="g")) == ["a"]
    put(driver, SetPosition("q", "new", "late", 0))
    assert named(driver.pop(group="late")) == []


def test_a_forgotten_position_is_a_first_contact_again(driver: Driver) -> None:
    driver.push("a", "b")
    put(driver, SetPosition("q", "p", "g", 1, "note", begins_at_oldest=True))
    assert put(driver, SetPosition("q", "p", "g", None)).reason == ""
    assert read(driver, ("q", "p")) == [GroupPositions("q", "p", None)]
    assert named(driver.pop(group="g")) == ["a", "b"]
    assert read(driver, ("q", "p"))[0].note == ""
    for place in (("q", "none"), ("none", "p")):
        queue, partition = place
        reply = put(driver, SetPosition(queue, partition, "g", None))
        assert bool(reply.reason) == (queue == "none")


def test_a_queue_is_never_made_by_a_position_alone(driver: Driver) -> None:
    reply = put(driver, SetPosition("none", "p", "g", 0))
    assert (reply.reason, reply.results) == ("queue_not_found", ())
    push = TransactionPush(PushItem("none", "p", "x", b"1"))
    both = Transaction("", (push,), (), (), (), (SetPosition("none", "p", "g", 1),))
    assert driver.ask(both, TransactionReply).reason == ""
    assert read(driver, ("none", "p"))[0].offset == 1


def test_a_bundle_that_rolls_back_moves_nothing(driver: Driver) -> None:
    driver.push("a", "b")
    lost = KvCheck("ns", "k", 7, required=True)
    assert put(driver, SetPosition("q", "p", "g", 1), kv=(lost,)).reason == "kv_precondition"
    assert read(driver) == []
    bad_ack = TransactionAck(Item("ghost", "1"), "g")
    command = Transaction("", (bad_ack,), (), (), (), (SetPosition("q", "p", "g", 1),))
    assert driver.ask(command, TransactionReply).reason == "rejected_ack"
    assert read(driver) == []


def test_notes_go_with_their_group(driver: Driver) -> None:
    driver.push("a")
    put(driver, SetPosition("q", "p", "g", 1, "note"))
    driver.apply(DeleteGroup("", "g"))
    put(driver, SetPosition("q", "p", "g", 0))
    assert read(driver) == [GroupPositions("q", "p", 0, "")]
