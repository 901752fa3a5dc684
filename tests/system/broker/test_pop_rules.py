"""Pop: claims, leases, rotation, budgets, repeats and take-back."""

from __future__ import annotations

from atleastonce.system.broker.commands import QUEUE_MODE, Pop
from atleastonce.system.broker.replies import PopReply

from .broker_driver import SECOND_US, Driver, attempts, named


def test_a_pop_claims_the_contiguous_run_from_the_cursor(driver: Driver) -> None:
    driver.push("a", "b", "c")
    assert driver.names(2) == ["a", "b"]


def test_a_claimed_partition_is_closed_to_its_group_but_open_to_others(driver: Driver) -> None:
    driver.push("a", "b")
    assert driver.names(1) == ["a"]
    assert driver.names(1) == []
    assert driver.names(1, group="g") == ["a"]


def test_one_lease_id_covers_all_partitions_of_a_pop(driver: Driver) -> None:
    for partition in ("p", "r", "s"):
        driver.push("a", partition=partition)
    reply = driver.pop()
    assert len(reply.runs) == 3
    assert driver.extend(reply.lease_id, 60).renewed == 3


def test_leases_of_two_pops_differ(driver: Driver) -> None:
    driver.push("a", partition="p")
    driver.push("b", partition="r")
    assert driver.pop(partitions=1).lease_id != driver.pop(partitions=1).lease_id


def test_the_batch_is_a_budget_over_all_partitions(driver: Driver) -> None:
    driver.push("a", "b", partition="p")
    driver.push("c", "d", partition="r")
    assert driver.names(3) == ["a", "b", "c"]


def test_partitions_limits_how_many_are_claimed(driver: Driver) -> None:
    for partition in ("p", "r", "s"):
        driver.push(partition, partition=partition)
    assert driver.names(partitions=2) == ["p", "r"]
    assert driver.names(partitions=2) == ["s"]


def test_ready_partitions_take_turns(driver: Driver) -> None:
    for partition in ("p", "r", "s"):
        driver.push(f"{partition}0", f"{partition}1", partition=partition)
    order = []
    for _ in range(6):
        reply = driver.pop(1, partitions=1)
        run = reply.runs[0]
        order.append(run.partition)
        driver.ack(named(reply)[0], lease=reply.lease_id, partition_id=run.partition_id)
    assert order == ["p", "r", "s", "p", "r", "s"]


def test_an_expired_lease_opens_the_partition_from_the_cursor(driver: Driver) -> None:
    driver.push("a", "b", "c")
    first = driver.pop(2, lease_s=10)
    driver.ack("a", lease=first.lease_id)
    driver.advance(9.9)
    assert driver.names() == []
    driver.advance(0.2)
    assert driver.names() == ["b"]


def test_a_repeated_delivery_never_charges_a_message_that_it_did_not_hold(driver: Driver) -> None:
    driver.push("a")
    driver.pop(4, lease_s=10)
    driver.push("b")
    driver.advance(10.1)
    again = driver.pop(4, lease_s=10)
    assert (named(again), attempts(again)) == (["a"], [2])
    driver.ack("a", lease=again.lease_id)
    after = driver.pop(4, lease_s=10)
    assert (named(after), attempts(after)) == (["b"], [1])


def test_a_delivery_split_on_its_repeat_keeps_the_count_of_its_tail(driver: Driver) -> None:
    driver.push("a", "b", "c")
    driver.pop(3, lease_s=10)
    driver.advance(10.1)
    head = driver.pop(1, lease_s=10)
    assert (named(head), attempts(head)) == (["a"], [2])
    driver.ack("a", lease=head.lease_id)
    tail = driver.pop(4, lease_s=10)
    assert (named(tail), attempts(tail)) == (["b", "c"], [2])


def test_a_repeated_pop_begins_its_lease_anew(driver: Driver) -> None:
    driver.push("a")
    first = driver.pop(1, lease_s=10, request_id="pop-1")
    driver.advance(9)
    again = driver.pop(1, lease_s=10, request_id="pop-1")
    assert (again.lease_id, attempts(again)) == (first.lease_id, [1])
    driver.advance(9)
    assert driver.extend(first.lease_id, 1).renewed == 1


def test_a_lease_is_dead_at_its_expiry_instant(driver: Driver) -> None:
    driver.push("a")
    driver.pop(lease_s=10)
    granted_us = driver.machine.now_us
    driver.clock_us = granted_us + 10 * SECOND_US - 1
    assert not driver.can_pop()
    driver.clock_us = granted_us + 10 * SECOND_US
    assert driver.can_pop()
    assert driver.names() == ["a"]


def test_lease_time_comes_from_the_queue_unless_the_pop_names_it(driver: Driver) -> None:
    driver.push("a")
    driver.pop(lease_s=None)
    assert driver.machine.next_due_us() == driver.machine.now_us + 60 * SECOND_US
    driver.configure("configured")
    driver.push("b", queue="configured")
    driver.pop(queue="configured", lease_s=None)
    driver.advance(299)
    assert driver.names(queue="configured") == []


def test_auto_ack_commits_at_delivery_without_a_lease(driver: Driver) -> None:
    driver.push("a", "b", "c")
    reply = driver.pop(2, auto_ack=True)
    assert (reply.lease_id, attempts(reply), named(reply)) == ("", [1], ["a", "b"])
    assert driver.names() == ["c"]


def test_a_pinned_pop_sees_only_its_partition(driver: Driver) -> None:
    driver.push("a", partition="p")
    driver.push("b", partition="r")
    assert driver.names(partition="r") == ["b"]
    assert driver.names(partition="r") == []
    assert driver.names() == ["a"]


def test_a_pinned_pop_of_an_unknown_partition_is_empty_and_creates_nothing(driver: Driver) -> None:
    command = Pop(request_id="", queue="q", partition="none")
    assert not driver.machine.can_pop(command, driver.clock_us)
    assert driver.names(partition="none") == []
    assert driver.can_pop()  # the queue is still unknown, so a plain pop has to create it


def test_a_first_pop_enters_the_log_to_create_its_queue_and_then_waits(driver: Driver) -> None:
    assert driver.can_pop()
    assert driver.names() == []
    assert not driver.can_pop()
    driver.push("a")
    assert driver.can_pop()


def test_can_pop_is_false_while_everything_is_leased(driver: Driver) -> None:
    driver.push("a")
    reply = driver.pop()
    assert not driver.can_pop()
    driver.ack(("a", "retry"), lease=reply.lease_id)
    assert driver.can_pop()


def test_a_repeated_pop_gets_the_same_claim_uncharged(driver: Driver) -> None:
    driver.push("a", "b", partition="p")
    driver.push("c", partition="r")
    first = driver.pop(request_id="same")
    assert driver.can_pop(request_id="same")
    assert driver.pop(request_id="same") == first
    assert attempts(first) == [1, 1]


def test_a_repeated_pop_after_an_ack_gets_the_rest_of_its_claim(driver: Driver) -> None:
    driver.push("a", "b")
    first = driver.pop(request_id="same")
    driver.ack("a", lease=first.lease_id)
    assert named(driver.pop(request_id="same")) == ["b"]


def test_a_repeated_pop_after_its_lease_died_is_a_new_claim(driver: Driver) -> None:
    driver.push("a")
    first = driver.pop(lease_s=10, request_id="same")
    driver.advance(11)
    second = driver.pop(request_id="same")
    assert second.lease_id != first.lease_id
    assert attempts(second) == [2]


def test_take_back_frees_the_partition_and_restores_the_attempt(driver: Driver) -> None:
    driver.push("a")
    lost = driver.pop()
    assert driver.take_back(lost.lease_id)
    again = driver.pop()
    assert (named(again), attempts(again)) == (["a"], [1])
    assert again.lease_id != lost.lease_id


def test_take_back_restores_a_marker_that_stood_before(driver: Driver) -> None:
    driver.push("a")
    driver.pop(lease_s=1)
    driver.advance(2)
    second = driver.pop()
    assert attempts(second) == [2]
    driver.take_back(second.lease_id)
    assert attempts(driver.pop()) == [2]


def test_take_back_after_any_use_of_the_lease_does_nothing(driver: Driver) -> None:
    driver.push("a", "b")
    reply = driver.pop()
    driver.extend(reply.lease_id, 60)
    assert not driver.take_back(reply.lease_id)
    assert driver.ack("a", lease=reply.lease_id)[0].success


def test_take_back_after_an_ack_does_nothing(driver: Driver) -> None:
    driver.push("a", "b")
    reply = driver.pop()
    driver.ack("a", lease=reply.lease_id)
    assert not driver.take_back(reply.lease_id)
    assert driver.ack("b", lease=reply.lease_id)[0].success


def test_take_back_after_a_late_ack_does_nothing(driver: Driver) -> None:
    driver.push("a")
    reply = driver.pop(lease_s=1)
    driver.advance(2)
    assert not driver.ack("a", lease=reply.lease_id)[0].success
    assert not driver.take_back(reply.lease_id)
    assert attempts(driver.pop()) == [2]


def test_each_asking_of_a_repeated_pop_must_give_its_claim_back(driver: Driver) -> None:
    driver.push("a")
    reply = driver.pop(request_id="same", asking="n1-1", trial=1)
    driver.pop(request_id="same", asking="n2-1", trial=1)
    assert not driver.take_back(reply.lease_id, "n1-1", 1)
    assert driver.names() == []
    assert not driver.take_back(reply.lease_id, "n1-1", 1)
    assert driver.take_back(reply.lease_id, "n2-1", 1)
    assert driver.names() == ["a"]


def test_one_take_back_undoes_a_claim_that_one_asking_was_given_twice(driver: Driver) -> None:
    driver.push("a")
    reply = driver.pop(request_id="same", asking="n1-1", trial=1)
    assert driver.pop(request_id="same", asking="n1-1", trial=2).lease_id == reply.lease_id
    assert driver.take_back(reply.lease_id, "n1-1", 2)
    assert attempts(driver.pop()) == [1]


def test_take_back_of_an_earlier_trial_leaves_the_claim_to_the_later_one(driver: Driver) -> None:
    driver.push("a")
    reply = driver.pop(request_id="same", asking="n1-1", trial=1)
    driver.pop(request_id="same", asking="n1-1", trial=2)
    assert not driver.take_back(reply.lease_id, "n1-1", 1)
    assert driver.names() == []
    assert driver.ack("a", lease=reply.lease_id)[0].success


def test_take_back_of_an_asking_that_was_given_nothing_does_nothing(driver: Driver) -> None:
    driver.push("a")
    reply = driver.pop(asking="n1-1", trial=1)
    assert not driver.take_back(reply.lease_id, "n1-2", 1)
    assert driver.ack("a", lease=reply.lease_id)[0].success


def test_take_back_of_an_unknown_lease_does_nothing(driver: Driver) -> None:
    assert not driver.take_back("none")


def test_take_back_after_an_unfenced_ack_keeps_the_progress(driver: Driver) -> None:
    driver.push("a", "b")
    reply = driver.pop()
    driver.ack("a")
    assert driver.take_back(reply.lease_id)
    assert driver.names() == ["b"]


def test_extend_prolongs_and_never_shortens(driver: Driver) -> None:
    driver.push("a")
    reply = driver.pop(lease_s=100)
    deadline_us = driver.machine.now_us + 100 * SECOND_US
    assert driver.extend(reply.lease_id, 5).expires_us == deadline_us
    longer = driver.extend(reply.lease_id, 200)
    assert longer.expires_us == driver.machine.now_us + 200 * SECOND_US
    driver.advance(150)
    assert driver.names() == []
    driver.advance(51)
    assert driver.names() == ["a"]


def test_extend_by_nothing_means_one_second(driver: Driver) -> None:
    driver.push("a")
    reply = driver.pop(lease_s=1)
    driver.advance(0.5)
    extended = driver.extend(reply.lease_id, 0)
    assert extended.expires_us == driver.machine.now_us + SECOND_US


def test_extend_of_expired_released_or_unknown_leases_renews_nothing(driver: Driver) -> None:
    driver.push("a")
    expired = driver.pop(lease_s=1)
    driver.advance(2)
    assert driver.extend(expired.lease_id, 60).renewed == 0
    released = driver.pop()
    driver.ack("a", lease=released.lease_id)
    assert driver.extend(released.lease_id, 60).renewed == 0
    unknown = driver.extend("none", 60)
    assert (unknown.renewed, unknown.expires_us) == (0, None)


def test_extend_skips_the_partitions_that_are_settled(driver: Driver) -> None:
    driver.push("a", partition="p")
    driver.push("b", partition="r")
    reply = driver.pop(lease_s=100)
    assert driver.extend(reply.lease_id, 300).renewed == 2
    driver.ack("a", lease=reply.lease_id)
    assert driver.extend(reply.lease_id, 10).renewed == 1


def test_autopilot_fills_in_only_what_was_not_sent(driver: Driver) -> None:
    for number in range(8):
        driver.push(f"m{number}", partition=f"p{number}")

    def piloted(knobs: str, waiting: int = 1, batch: int = 3, partitions: int = 1) -> PopReply:
        reply = driver.ask(
            Pop(
                request_id="",
                queue="q",
                batch=batch,
                partitions=partitions,
                autopilot=knobs,  # type: ignore[arg-type]
                waiting=waiting,
                subscribe="all",
            ),
            PopReply,
        )
        driver.take_back(reply.lease_id)
        return reply

    both = piloted("both")
    assert (len(both.runs), both.autopilot) == (8, (8, 800, 100))
    shared = piloted("both", waiting=4)
    assert (len(shared.runs), shared.autopilot) == (2, (2, 200, 100))
    only_batch = piloted("batch", partitions=2)
    assert (len(only_batch.runs), only_batch.autopilot) == (2, (2, 200, 100))
    only_width = piloted("partitions", batch=3)
    assert (len(only_width.runs), only_width.autopilot) == (3, (8, 3, 100))
    assert piloted("").autopilot is None


def test_queue_mode_is_the_group_of_pops_that_name_none(driver: Driver) -> None:
    driver.push("a")
    assert driver.pop().group == QUEUE_MODE
