"""Transactions: all or nothing, fences, first answers."""

from __future__ import annotations

from atleastonce.system.broker.commands import (
    QUEUE_MODE,
    AckItem,
    AckStatus,
    CancelTimer,
    PushItem,
    ScheduleTimer,
    TimerOperation,
    Transaction,
    TransactionAck,
    TransactionPush,
)
from atleastonce.system.broker.queries import TimerCount
from atleastonce.system.broker.replies import (
    AckedItem,
    TimerCountReply,
    TimerResult,
    TransactionPushed,
    TransactionReply,
)

from .broker_driver import Driver, named

Operation = TransactionAck | TransactionPush


def acked(
    name: str, lease: str = "", status: AckStatus = "completed", partition_id: str = "1"
) -> TransactionAck:
    return TransactionAck(AckItem(name, partition_id, status, lease), QUEUE_MODE)


def pushed(name: str, queue: str = "q", partition: str = "p") -> TransactionPush:
    return TransactionPush(PushItem(queue, partition, name, b"1"))


def transact(
    driver: Driver,
    *operations: Operation,
    required: tuple[str, ...] = (),
    timers: tuple[TimerOperation, ...] = (),
    request_id: str = "",
) -> TransactionReply:
    command = Transaction(request_id, operations, required, timers)
    return driver.ask(command, TransactionReply)


def assert_rolled_back(reply: TransactionReply, reason: str) -> None:
    assert (reply.reason, reply.results) == (reason, ())
    assert "rolled back" in reply.error


def test_acks_pushes_and_timers_commit_together(driver: Driver) -> None:
    driver.push("a")
    lease = driver.pop().lease_id
    timer = ScheduleTimer("q", "k", 1000, "t", b"1")
    reply = transact(driver, acked("a", lease), pushed("b"), timers=(timer,))
    assert [type(result) for result in reply.results] == [AckedItem, TransactionPushed, TimerResult]
    assert driver.names() == ["b"]
    count = driver.machine.read(TimerCount("q"), driver.clock_us)
    assert count == TimerCountReply(1)


def test_results_keep_the_order_of_the_operations(driver: Driver) -> None:
    driver.push("a", "b")
    lease = driver.pop().lease_id
    reply = transact(driver, pushed("x"), acked("a", lease), pushed("y"), acked("b", lease))
    names = [
        r.transaction_id for r in reply.results if isinstance(r, AckedItem | TransactionPushed)
    ]
    assert names == ["x", "a", "y", "b"]


def test_a_stale_fence_rolls_everything_back(driver: Driver) -> None:
    driver.push("a", partition="p")
    driver.push("b", partition="r")
    stale = driver.pop(1, partitions=1, lease_s=1)
    live = driver.pop(1, partitions=1)
    driver.advance(2)
    reply = transact(
        driver,
        acked("a", stale.lease_id, partition_id="1"),
        acked("b", live.lease_id, partition_id="2"),
        pushed("c"),
        timers=(ScheduleTimer("q", "k", 1, "t", b"1"),),
    )
    assert_rolled_back(reply, "rejected_ack")
    assert driver.ack("b", lease=live.lease_id, partition_id="2")[0].success
    assert driver.names() == ["a"]
    assert driver.machine.next_due_us(driver.clock_us + 2_000_000) is not None
    assert driver.fire() == 0


def test_an_ack_borrows_the_only_lease_of_the_bundle(driver: Driver) -> None:
    driver.push("a", "b")
    stale = driver.pop(2, lease_s=1).lease_id
    driver.advance(2)
    assert_rolled_back(transact(driver, acked("a"), required=(stale,)), "rejected_ack")
    live = driver.pop().lease_id
    assert not transact(driver, acked("a"), acked("b"), required=(live,)).reason


def test_with_two_leases_an_ack_without_one_is_unfenced(driver: Driver) -> None:
    for partition in ("p", "r", "s"):
        driver.push(partition, partition=partition)
    one = driver.pop(1, partitions=1).lease_id
    two = driver.pop(1, partitions=1).lease_id
    driver.pop(1, partitions=1, lease_s=1)
    driver.advance(2)
    bundle = (acked("s", partition_id="3"), acked("p", one), acked("r", two, partition_id="2"))
    assert not transact(driver, *bundle).reason
    assert driver.depth() == (0, 0, 0)


def test_a_required_lease_must_be_live_even_if_no_ack_uses_it(driver: Driver) -> None:
    assert_rolled_back(transact(driver, pushed("a"), required=("none",)), "rejected_ack")
    assert driver.names() == []


def test_the_memory_of_released_leases_does_not_count_in_a_transaction(driver: Driver) -> None:
    driver.push("a")
    lease = driver.pop().lease_id
    assert not transact(driver, acked("a", lease), pushed("copy")).reason
    assert_rolled_back(transact(driver, acked("a", lease), pushed("copy-2")), "rejected_ack")
    assert driver.names() == ["copy"]


def test_an_unresolvable_ack_rolls_back(driver: Driver) -> None:
    driver.push("a")
    lease = driver.pop().lease_id
    reply = transact(driver, acked("a", lease), acked("ghost", lease), pushed("b"))
    assert_rolled_back(reply, "rejected_ack")
    assert driver.extend(lease, 60).renewed == 1


def test_an_already_completed_ack_under_a_live_lease_commits(driver: Driver) -> None:
    driver.push("a", "b")
    lease = driver.pop().lease_id
    driver.ack("a", lease=lease)
    reply = transact(driver, acked("a", lease), acked("b", lease), pushed("copy"))
    assert not reply.reason
    assert driver.names() == ["copy"]


def test_acks_of_one_lease_may_interleave_with_pushes(driver: Driver) -> None:
    driver.push("a", "b", "c")
    lease = driver.pop().lease_id
    bundle = (acked("a"), pushed("b-copy"), acked("b"), pushed("c-copy"), acked("c"))
    assert not transact(driver, *bundle, required=(lease,)).reason
    assert driver.names() == ["b-copy", "c-copy"]


def test_a_push_of_a_known_id_rolls_back_as_duplicate(driver: Driver) -> None:
    driver.push("a", "known")
    lease = driver.pop(1).lease_id
    assert_rolled_back(transact(driver, acked("a", lease), pushed("known")), "duplicate")
    assert driver.ack("a", lease=lease)[0].success


def test_a_repeat_inside_the_bundle_stores_once_and_commits(driver: Driver) -> None:
    reply = transact(driver, pushed("a"), pushed("a"))
    first, second = reply.results
    assert isinstance(first, TransactionPushed)
    assert isinstance(second, TransactionPushed)
    assert (first.duplicate, second.duplicate) == (False, True)
    assert first.message_id == second.message_id
    assert driver.names() == ["a"]


def test_rejected_acks_are_judged_before_duplicates(driver: Driver) -> None:
    driver.push("known")
    reply = transact(driver, pushed("known"), acked("known", "none"))
    assert reply.reason == "rejected_ack"


def test_a_failed_ack_in_a_bundle_may_file(driver: Driver) -> None:
    driver.configure(retryLimit=0)
    driver.push("a")
    reply = transact(driver, acked("a", driver.pop().lease_id, "failed"), pushed("b"))
    (answer, _) = reply.results
    assert isinstance(answer, AckedItem)
    assert answer.dlq
    assert len(driver.dead()) == 1


def test_a_rollback_files_nothing(driver: Driver) -> None:
    driver.push("a", "known")
    lease = driver.pop().lease_id
    assert_rolled_back(transact(driver, acked("a", lease, "dlq"), pushed("known")), "duplicate")
    assert driver.dead() == []
    assert driver.depth() == (2, 2, 0)


def test_fenced_and_unfenced_acks_of_one_cursor_are_judged_one_after_the_other(
    driver: Driver,
) -> None:
    driver.push("a", "b", partition="p")
    driver.push("c", partition="r")
    one = driver.pop(partitions=1).lease_id
    two = driver.pop(partitions=1).lease_id
    bundle = (acked("a"), acked("b", one), acked("c", two, partition_id="2"))
    reply = transact(driver, *bundle)
    assert not reply.reason
    assert driver.depth() == (0, 0, 0)


def test_an_unfenced_ack_that_ends_the_batch_makes_the_fence_behind_it_stale(
    driver: Driver,
) -> None:
    driver.push("a", "b", partition="p")
    driver.push("c", partition="r")
    one = driver.pop(partitions=1).lease_id
    two = driver.pop(partitions=1).lease_id
    bundle = (acked("b"), acked("a", one), acked("c", two, partition_id="2"))
    assert_rolled_back(transact(driver, *bundle), "rejected_ack")
    assert driver.depth() == (3, 3, 0)
    assert driver.extend(one, 60).renewed == 1


def test_a_repeated_request_gets_its_first_answer(driver: Driver) -> None:
    first = transact(driver, pushed("a"), request_id="same")
    assert transact(driver, pushed("a"), request_id="same") == first
    assert driver.names() == ["a"]


def test_first_answers_are_kept_for_600_seconds(driver: Driver) -> None:
    first = transact(driver, pushed("a"), request_id="same")
    driver.advance(599)
    assert transact(driver, pushed("a"), request_id="same") == first
    driver.advance(2)
    assert_rolled_back(transact(driver, pushed("a"), request_id="same"), "duplicate")


def test_a_rollback_is_a_first_answer_too(driver: Driver) -> None:
    driver.push("a")
    first = transact(driver, acked("a"), request_id="same")
    assert_rolled_back(first, "rejected_ack")
    driver.pop()
    assert transact(driver, acked("a"), request_id="same") == first


def test_cancelling_an_absent_timer_does_not_roll_back(driver: Driver) -> None:
    reply = transact(driver, pushed("a"), timers=(CancelTimer("q", "none"),))
    result = reply.results[1]
    assert isinstance(result, TimerResult)
    assert (result.ok, result.status) == (False, "absent")
    assert driver.names() == ["a"]


def test_a_hand_back_returns_unstarted_jobs_uncharged(driver: Driver) -> None:
    driver.push("done", "one", "two")
    lease = driver.pop().lease_id
    bundle = (acked("done"), acked("one"), acked("two"), pushed("one-copy"), pushed("two-copy"))
    assert not transact(driver, *bundle, required=(lease,)).reason
    again = driver.pop()
    assert named(again) == ["one-copy", "two-copy"]
    assert again.runs[0].attempt == 1
