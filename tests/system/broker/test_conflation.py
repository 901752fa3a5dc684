"""Last-value delivery: the newest visible message, its ack, its failures; nothing gets lost."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from atleastonce.system.broker.administrative import DeleteGroup
from atleastonce.system.broker.commands import QUEUE_MODE, AckStatus, Pop
from atleastonce.system.broker.replies import PopReply

from .broker_driver import Driver, attempts, named


def pop(
    driver: Driver,
    *,
    group: str = "g",
    conflation: bool | None = True,
    lease_s: int = 30,
    request_id: str | None = None,
    partition: str | None = None,
    auto_ack: bool = False,
) -> PopReply:
    command = Pop(
        request_id=driver.request_id() if request_id is None else request_id,
        queue="q",
        partition=partition,
        group=group,
        batch=10,
        partitions=0,
        lease_s=lease_s,
        subscribe="all",
        conflation=conflation,
        auto_ack=auto_ack,
    )
    return driver.ask(command, PopReply)


def test_only_the_newest_message_is_delivered_and_its_ack_retires_the_rest(driver: Driver) -> None:
    driver.push(*"abcd")
    reply = pop(driver)
    assert (named(reply), attempts(reply), reply.conflates) == (["d"], [1], True)
    (answer,) = driver.ack("d", lease=reply.lease_id, group="g")
    assert (answer.success, answer.lease_released, answer.conflated) == (True, True, 3)
    assert driver.depth(group="g") == (0, 0, 0)


def test_what_comes_while_a_message_is_worked_on_is_never_skipped(driver: Driver) -> None:
    driver.push("a")
    reply = pop(driver)
    driver.push("b", "c")
    driver.ack("a", lease=reply.lease_id, group="g")
    assert named(pop(driver)) == ["c"]


def test_two_consumers_of_a_group_never_work_on_one_partition(driver: Driver) -> None:
    driver.push("a")
    pop(driver)
    driver.push("b")
    assert named(pop(driver)) == []


def test_failures_are_counted_over_messages_that_replace_each_other(driver: Driver) -> None:
    driver.configure(retryLimit=2)
    for number, newest in enumerate(("a", "b", "c"), start=1):
        driver.push(newest)
        reply = pop(driver)
        assert (named(reply), attempts(reply)) == ([newest], [number])
        (answer,) = driver.ack((newest, "failed"), lease=reply.lease_id, group="g", error="bad")
        assert answer.dlq == (number == 3)
    assert [letter.message.transaction_id for letter in driver.dead()] == ["c"]
    assert driver.depth(group="g") == (0, 0, 0)
    driver.push("d")
    assert attempts(pop(driver)) == [1]


def test_a_lease_that_runs_out_delivers_the_newest_then(driver: Driver) -> None:
    driver.push("a")
    stale = pop(driver, lease_s=5).lease_id
    driver.push("b")
    driver.advance(6)
    reply = pop(driver)
    assert (named(reply), attempts(reply)) == (["b"], [2])
    assert not driver.ack("a", lease=stale, group="g")[0].success
    assert driver.ack("b", lease=reply.lease_id, group="g")[0].success


def test_what_is_still_hidden_is_neither_delivered_nor_retired(driver: Driver) -> None:
    driver.configure(delayedProcessing=10)
    driver.push("a", "b")
    driver.advance(11)
    driver.push("c")
    reply = pop(driver)
    assert named(reply) == ["b"]
    driver.ack("b", lease=reply.lease_id, group="g")
    assert driver.depth(group="g")[0] == 1


def test_a_repeated_pop_gets_its_message_again_and_a_taken_back_one_costs_nothing(
    driver: Driver,
) -> None:
    driver.push("a", "b")
    first = pop(driver, request_id="same")
    driver.push("c")
    again = pop(driver, request_id="same")
    assert (again.lease_id, again.runs, again.conflates) == (first.lease_id, first.runs, True)
    assert driver.take_back(first.lease_id)
    reply = pop(driver)
    assert (named(reply), attempts(reply)) == (["c"], [1])


def test_the_first_pop_decides_for_good(driver: Driver) -> None:
    driver.push("a", "b")
    plain = pop(driver, conflation=None, group="g")
    assert (named(plain), plain.conflates, plain.conflicts) == (["a", "b"], False, False)
    wished = pop(driver, conflation=True, group="g")
    assert (wished.conflates, wished.conflicts) == (False, True)
    pinned = pop(driver, conflation=True, group="h", partition="p")
    assert (named(pinned), pinned.conflates) == (["b"], True)
    assert pop(driver, conflation=False, group="h").conflicts


def test_queue_mode_never_conflates(driver: Driver) -> None:
    driver.push("a", "b")
    assert named(pop(driver, group=QUEUE_MODE)) == ["a", "b"]


def test_a_deleted_group_may_decide_anew(driver: Driver) -> None:
    driver.push("a", "b")
    pop(driver)
    driver.apply(DeleteGroup("", "g"))
    assert named(pop(driver, conflation=None)) == ["a", "b"]


def test_other_groups_get_everything(driver: Driver) -> None:
    driver.push("a", "b")
    pop(driver)
    assert named(pop(driver, group="audit", conflation=None)) == ["a", "b"]


@settings(max_examples=60)
@given(st.lists(st.sampled_from(["push", "pop", "ack", "failed", "wait"]), max_size=40))
def test_the_last_message_is_always_delivered_after_it_was_pushed(steps: list[str]) -> None:
    driver = Driver()
    driver.configure(retryLimit=1000)
    pushed, held = 0, ("", "")
    for step in [*steps, "wait", "pop", "ack"]:
        if step == "push":
            pushed += 1
            driver.push(f"m{pushed}")
        elif step == "pop":
            reply = pop(driver, lease_s=5)
            if reply.runs:
                assert named(reply) == [f"m{pushed}"]
                held = (named(reply)[0], reply.lease_id)
        elif step == "wait":
            driver.advance(6)
        elif held[0]:
            status: AckStatus = "completed" if step == "ack" else "failed"
            (answer,) = driver.ack((held[0], status), lease=held[1], group="g")
            if answer.success and step == "ack":
                done = int(held[0][1:])
                assert driver.depth(group="g")[0] == pushed - done
            held = ("", "")
    if pushed:
        assert driver.depth(group="g")[0] == 0
