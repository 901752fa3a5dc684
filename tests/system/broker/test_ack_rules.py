"""Ack: the cursor, signals, the retry budget, fences."""

from __future__ import annotations

import pytest

from atleastonce.system.broker.commands import Ack, AckItem, AckStatus
from atleastonce.system.broker.replies import AckReply

from .broker_driver import Driver, attempts, named


@pytest.fixture
def batch(driver: Driver) -> str:
    """Lease of a delivered batch a, b, c, d."""
    driver.push("a", "b", "c", "d")
    return driver.pop().lease_id


def test_acking_a_message_completes_the_silent_gap_before_it(driver: Driver, batch: str) -> None:
    (answer,) = driver.ack("c", lease=batch)
    assert (answer.success, answer.lease_released, answer.noop) == (True, False, False)
    assert driver.depth() == (1, 1, 0)


def test_the_lease_is_released_when_the_batch_is_complete(driver: Driver, batch: str) -> None:
    assert driver.ack("a", "b", "c", lease=batch)[2].lease_released is False
    assert driver.ack("d", lease=batch)[0].lease_released is True
    assert driver.extend(batch, 60).renewed == 0


def test_a_completed_ack_at_or_below_the_cursor_is_a_noop(driver: Driver, batch: str) -> None:
    driver.ack("b", lease=batch)
    late, again = driver.ack("a", "b", lease=batch)
    assert (late.success, late.noop, again.noop) == (True, True, True)


@pytest.mark.parametrize("status", ["failed", "retry", "dlq"])
def test_a_signal_below_the_cursor_is_already_committed(
    driver: Driver, batch: str, status: AckStatus
) -> None:
    driver.ack("b", lease=batch)
    (answer,) = driver.ack(("a", status), lease=batch)
    assert not answer.success
    assert "committed" in answer.error
    assert driver.depth() == (2, 2, 0)


def test_an_unknown_message_is_unresolvable_and_the_lease_untouched(
    driver: Driver, batch: str
) -> None:
    for status in ("completed", "failed"):
        (answer,) = driver.ack(("ghost", status), lease=batch)
        assert not answer.success
        assert "unresolv" in answer.error
    assert driver.ack("d", lease=batch)[0].success


def test_a_message_behind_the_batch_is_unresolvable_under_its_lease(driver: Driver) -> None:
    driver.push("a", "b")
    reply = driver.pop(1)
    assert "unresolv" in driver.ack("b", lease=reply.lease_id)[0].error
    assert driver.ack("b")[0].success  # without a fence the window is the whole log


def test_failed_releases_and_delivers_the_failed_message_next(driver: Driver, batch: str) -> None:
    answers = driver.ack("a", ("b", "failed"), "c", "d", lease=batch)
    assert [answer.success for answer in answers] == [True, True, True, True]
    assert all(answer.lease_released for answer in answers)
    assert driver.names() == ["b", "c", "d"]


def test_the_lowest_signal_is_the_head_and_later_completions_return(
    driver: Driver, batch: str
) -> None:
    driver.ack("d", ("c", "failed"), ("b", "retry"), "a", lease=batch)
    assert driver.names() == ["b", "c", "d"]


def test_a_gap_below_a_signal_is_not_completed(driver: Driver, batch: str) -> None:
    driver.ack(("c", "failed"), lease=batch)
    assert driver.names() == ["a", "b", "c", "d"]


def test_failed_is_charged_once_for_each_call(driver: Driver) -> None:
    driver.configure(retryLimit=1)
    driver.push("a", "b")
    driver.ack(("a", "failed"), ("b", "failed"), lease=driver.pop().lease_id)
    assert driver.dead() == []
    driver.ack(("a", "failed"), ("b", "failed"), lease=driver.pop().lease_id)
    assert [letter.message.transaction_id for letter in driver.dead()] == ["b", "a"]


@pytest.mark.parametrize("limit", [0, 1, 3])
def test_a_retry_limit_of_n_delivers_again_n_times(driver: Driver, limit: int) -> None:
    driver.configure(retryLimit=limit)
    driver.push("a", "b")
    for _ in range(limit):
        reply = driver.pop(1)
        assert named(reply) == ["a"]
        assert not driver.ack(("a", "failed"), lease=reply.lease_id, error="boom")[0].dlq
    (answer,) = driver.ack(("a", "failed"), lease=driver.pop(1).lease_id, error="boom")
    assert (answer.success, answer.dlq, answer.lease_released) == (True, True, True)
    (letter,) = driver.dead()
    assert (letter.error, letter.retry_count, letter.group) == ("boom", limit, "__QUEUE_MODE__")
    assert driver.names() == ["b"]


def test_a_full_batch_resets_the_retry_budget(driver: Driver) -> None:
    driver.configure(retryLimit=1)
    driver.push("a", "b")
    driver.ack(("a", "failed"), lease=driver.pop(1).lease_id)
    driver.ack("a", lease=driver.pop(1).lease_id)
    driver.ack(("b", "failed"), lease=driver.pop(1).lease_id)
    assert driver.dead() == []


def test_the_retry_budget_belongs_to_the_cursor_not_to_the_message(driver: Driver) -> None:
    driver.configure(retryLimit=1)
    driver.push("a", "b")
    driver.ack(("a", "failed"), lease=driver.pop().lease_id)
    lease = driver.pop().lease_id
    driver.ack("a", lease=lease)
    assert driver.ack(("b", "failed"), lease=lease)[0].dlq


def test_groups_have_budgets_of_their_own(driver: Driver) -> None:
    driver.configure(retryLimit=1)
    driver.push("a")
    driver.ack(("a", "failed"), lease=driver.pop().lease_id)
    lease = driver.pop(group="g").lease_id
    assert not driver.ack(("a", "failed"), lease=lease, group="g")[0].dlq


def test_expiry_never_spends_the_budget_nor_files(driver: Driver) -> None:
    driver.configure(retryLimit=0)
    driver.push("a")
    for _ in range(10):
        driver.pop(lease_s=1)
        driver.advance(2)
    assert driver.dead() == []
    assert attempts(driver.pop()) == [11]


def test_retry_spends_no_budget(driver: Driver) -> None:
    driver.configure(retryLimit=0)
    driver.push("a")
    for _ in range(5):
        assert driver.ack(("a", "retry"), lease=driver.pop().lease_id)[0].success
    assert driver.dead() == []
    assert driver.names() == ["a"]


def test_retries_leave_the_budget_for_failures(driver: Driver) -> None:
    driver.configure(retryLimit=1)
    driver.push("a")
    for _ in range(3):
        driver.ack(("a", "retry"), lease=driver.pop().lease_id)
    assert not driver.ack(("a", "failed"), lease=driver.pop().lease_id)[0].dlq
    assert driver.ack(("a", "failed"), lease=driver.pop().lease_id)[0].dlq


def test_retry_commits_the_completed_prefix(driver: Driver, batch: str) -> None:
    driver.ack("a", "b", ("c", "retry"), "d", lease=batch)
    assert driver.names() == ["c", "d"]


def test_dlq_files_now_and_advances(driver: Driver, batch: str) -> None:
    (answer,) = driver.ack(("b", "dlq"), lease=batch, error="poison")
    assert (answer.success, answer.dlq, answer.lease_released) == (True, True, True)
    (letter,) = driver.dead()
    assert (letter.message.transaction_id, letter.error) == ("b", "poison")
    assert driver.names() == ["c", "d"]


def test_dlq_files_even_when_exhausted_messages_are_dropped(driver: Driver) -> None:
    driver.configure(deadLetterQueue=False, dlqAfterMaxRetries=False, retryLimit=0)
    driver.push("a", "b")
    assert driver.ack(("a", "dlq"), lease=driver.pop(1).lease_id)[0].dlq
    assert not driver.ack(("b", "failed"), lease=driver.pop(1).lease_id)[0].dlq
    assert [letter.message.transaction_id for letter in driver.dead()] == ["a"]
    assert driver.depth() == (0, 0, 0)


@pytest.mark.parametrize(("one", "two"), [(True, False), (False, True)])
def test_either_dead_letter_option_files(driver: Driver, one: bool, two: bool) -> None:
    driver.configure(deadLetterQueue=one, dlqAfterMaxRetries=two, retryLimit=0)
    driver.push("a")
    assert driver.ack(("a", "failed"), lease=driver.pop().lease_id)[0].dlq


def test_the_unbroken_run_above_a_filed_head_is_settled_too(driver: Driver) -> None:
    driver.configure(retryLimit=0)
    driver.push(*"abcdef")
    acks: list[tuple[str, AckStatus]] = [
        ("a", "completed"),
        ("b", "failed"),
        ("c", "completed"),
        ("d", "failed"),
        ("f", "completed"),
    ]
    driver.ack(*acks, lease=driver.pop().lease_id)
    assert [letter.message.transaction_id for letter in driver.dead()] == ["d", "b"]
    assert driver.names() == ["e", "f"]


def test_a_retry_ends_the_run_above_a_filed_head(driver: Driver) -> None:
    driver.configure(retryLimit=0)
    driver.push(*"abc")
    driver.ack(("a", "failed"), ("b", "retry"), "c", lease=driver.pop().lease_id)
    assert driver.names() == ["b", "c"]


def test_on_one_message_dlq_beats_failed_beats_retry(driver: Driver) -> None:
    driver.push("a", "b")
    driver.ack(("a", "retry"), ("a", "dlq"), ("a", "failed"), lease=driver.pop().lease_id)
    assert [letter.message.transaction_id for letter in driver.dead()] == ["a"]


def test_what_counts_anew_is_not_delivered_with_what_does_not(driver: Driver) -> None:
    driver.push("a", "b", "c", "d")
    lease = driver.pop(3).lease_id
    driver.ack(("a", "retry"), lease=lease)
    lease = driver.pop(2).lease_id
    driver.ack(("a", "dlq"), lease=lease)
    (run,) = driver.pop(9).runs
    assert ([message.transaction_id for message in run.messages], run.attempt) == (["b"], 1)
    driver.ack(("b", "completed"))
    (run,) = driver.pop(9).runs
    assert ([message.transaction_id for message in run.messages], run.attempt) == (["c"], 2)


def test_the_error_of_a_dead_letter_falls_back(driver: Driver) -> None:
    driver.configure(retryLimit=0)
    driver.push("a", "b", "c")
    driver.ack(("a", "failed"), lease=driver.pop(1).lease_id)
    lease = driver.pop().lease_id
    items = (
        AckItem("b", "1", "failed", lease),
        AckItem("c", "1", "failed", lease, "said by c"),
    )
    driver.ask(Ack("", "__QUEUE_MODE__", items), AckReply)
    assert [letter.error for letter in driver.dead()] == [
        "said by c",
        "said by c",
        "Retries exhausted",
    ]


def test_a_stale_lease_is_refused_whole_and_harms_nothing(driver: Driver, batch: str) -> None:
    answers = driver.ack("a", ("b", "failed"), lease="other")
    assert all("lease" in answer.error and not answer.success for answer in answers)
    assert driver.depth() == (4, 4, 0)
    assert driver.ack("d", lease=batch)[0].success


def test_an_expired_lease_is_refused_even_when_nobody_took_over(driver: Driver) -> None:
    driver.push("a")
    reply = driver.pop(lease_s=1)
    driver.advance(1.1)
    assert "lease" in driver.ack("a", lease=reply.lease_id)[0].error


def test_an_ack_without_lease_moves_whoever_holds_the_partition(driver: Driver, batch: str) -> None:
    assert driver.ack("b")[0].success
    assert driver.depth() == (2, 2, 0)
    assert driver.ack("d")[0].lease_released
    assert driver.extend(batch, 60).renewed == 0


def test_an_ack_without_lease_still_advances_after_expiry(driver: Driver) -> None:
    driver.push("a", "b")
    driver.pop(lease_s=1)
    driver.advance(2)
    assert driver.ack("a")[0].success
    assert driver.names() == ["b"]


def test_a_group_without_a_claim_is_no_consumer(driver: Driver, batch: str) -> None:
    assert "consumer not found" in driver.ack("a", group="stranger")[0].error
    assert "consumer not found" in driver.ack("a", partition_id="99")[0].error


def test_a_registered_group_is_no_consumer_of_a_partition_it_never_claimed(driver: Driver) -> None:
    driver.push("a", partition="p")
    driver.pop()
    driver.push("b", partition="r")
    assert "consumer not found" in driver.ack("b", partition_id="2")[0].error


def test_items_of_one_call_are_answered_in_order_over_partitions(driver: Driver) -> None:
    driver.push("a", "c", partition="p")
    driver.push("b", partition="r")
    lease = driver.pop().lease_id
    items = (
        AckItem("a", "1", "completed", lease),
        AckItem("b", "2", "completed", lease),
        AckItem("ghost", "2", "completed", lease),
        AckItem("c", "1", "completed", "stale"),
    )
    answers = driver.ask(Ack("", "__QUEUE_MODE__", items), AckReply).items
    assert [answer.transaction_id for answer in answers] == ["a", "b", "ghost", "c"]
    assert [answer.success for answer in answers] == [True, True, False, False]


def test_a_message_id_used_again_after_its_window_resolves_to_the_open_one(driver: Driver) -> None:
    driver.configure(dedupWindowSeconds=1)
    driver.push("a", "b")
    driver.advance(2)
    driver.push("a")
    reply = driver.pop()
    assert named(reply) == ["a", "b", "a"]
    driver.ack("a", lease=reply.lease_id)
    assert driver.depth() == (2, 2, 0)
    assert driver.ack("a", lease=reply.lease_id)[0].lease_released
