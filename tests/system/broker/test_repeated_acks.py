"""A repeated ack gets its first answer; attempts are counted exactly."""

from __future__ import annotations

from .broker_driver import Driver, attempts, named


def test_a_repeat_of_the_completing_ack_succeeds_again(driver: Driver) -> None:
    driver.push("a", "b")
    lease = driver.pop().lease_id
    first = driver.ack("a", "b", lease=lease)
    assert driver.ack("a", "b", lease=lease) == first


def test_a_repeat_succeeds_while_another_worker_holds_the_next_batch(driver: Driver) -> None:
    driver.push("a", "b")
    lease = driver.pop(1).lease_id
    first = driver.ack("a", lease=lease)
    held = driver.pop(1)
    assert driver.ack("a", lease=lease) == first
    assert driver.ack("b", lease=held.lease_id)[0].success


def test_only_the_last_released_lease_is_remembered(driver: Driver) -> None:
    driver.push("a", "b")
    old = driver.pop(1).lease_id
    driver.ack("a", lease=old)
    driver.ack("b", lease=driver.pop(1).lease_id)
    assert "lease" in driver.ack("a", lease=old)[0].error


def test_the_memory_covers_only_its_batch(driver: Driver) -> None:
    driver.push("a", "b")
    lease = driver.pop(1).lease_id
    driver.ack("a", lease=lease)
    assert "lease" in driver.ack("b", lease=lease)[0].error


def test_a_repeated_failed_ack_is_not_charged_again(driver: Driver) -> None:
    driver.configure(retryLimit=1)
    driver.push("a", "b")
    lease = driver.pop(1).lease_id
    first = driver.ack(("a", "failed"), lease=lease)
    assert driver.ack(("a", "failed"), lease=lease) == first
    assert driver.dead() == []
    assert not driver.ack(("a", "retry"), lease=lease)[0].success


def test_a_repeated_dlq_ack_files_once(driver: Driver) -> None:
    driver.push("a")
    lease = driver.pop().lease_id
    first = driver.ack(("a", "dlq"), lease=lease)
    assert driver.ack(("a", "dlq"), lease=lease) == first
    assert len(driver.dead()) == 1


def test_a_late_completion_of_a_released_message_is_refused(driver: Driver) -> None:
    driver.push("a", "b")
    lease = driver.pop().lease_id
    driver.ack(("a", "failed"), lease=lease)
    assert "lease" in driver.ack("b", lease=lease)[0].error
    assert driver.names() == ["a", "b"]


def test_an_unfenced_charging_ack_is_idempotent_by_its_request(driver: Driver) -> None:
    driver.configure(retryLimit=1)
    driver.push("a")
    driver.pop()
    first = driver.ack(("a", "failed"), request_id="same")
    driver.pop()
    assert driver.ack(("a", "failed"), request_id="same") == first
    assert driver.dead() == []


def test_the_first_delivery_is_attempt_one_and_expiry_counts_up(driver: Driver) -> None:
    driver.push("a", "b")
    for attempt in (1, 2, 3):
        assert attempts(driver.pop(lease_s=1)) == [attempt]
        driver.advance(2)


def test_failed_and_retry_deliveries_count_up(driver: Driver) -> None:
    driver.push("a")
    driver.ack(("a", "failed"), lease=driver.pop().lease_id)
    second = driver.pop()
    assert attempts(second) == [2]
    driver.ack(("a", "retry"), lease=second.lease_id)
    assert attempts(driver.pop()) == [3]


def test_a_completed_batch_resets_the_attempt(driver: Driver) -> None:
    driver.push("a", "b")
    driver.pop(1, lease_s=1)
    driver.advance(2)
    second = driver.pop(1)
    assert attempts(second) == [2]
    driver.ack("a", lease=second.lease_id)
    assert attempts(driver.pop()) == [1]


def test_a_partial_ack_moves_the_marker_with_its_count(driver: Driver) -> None:
    driver.push("a", "b", "c")
    first = driver.pop(lease_s=1)
    driver.ack("a", lease=first.lease_id)
    driver.advance(2)
    again = driver.pop()
    assert (named(again), attempts(again)) == (["b", "c"], [2])


def test_a_released_prefix_moves_the_marker(driver: Driver) -> None:
    driver.push("a", "b", "c")
    driver.ack("a", ("b", "retry"), lease=driver.pop().lease_id)
    again = driver.pop()
    assert (named(again), attempts(again)) == (["b", "c"], [2])


def test_after_a_filed_head_the_rest_is_a_first_delivery(driver: Driver) -> None:
    driver.push("a", "b")
    driver.ack(("a", "dlq"), lease=driver.pop().lease_id)
    again = driver.pop()
    assert (named(again), attempts(again)) == (["b"], [1])


def test_attempts_are_counted_for_each_group_apart(driver: Driver) -> None:
    driver.push("a")
    driver.pop(lease_s=1)
    driver.advance(2)
    assert attempts(driver.pop()) == [2]
    assert attempts(driver.pop(group="g")) == [1]


def test_an_auto_ack_delivery_is_attempt_one_after_any_history(driver: Driver) -> None:
    driver.push("a")
    driver.pop(lease_s=1)
    driver.advance(2)
    assert attempts(driver.pop(auto_ack=True)) == [1]


def test_unfenced_acks_past_a_whole_delivery_clear_its_marker(driver: Driver) -> None:
    driver.push("a", "b", "c", "d")
    driver.pop(1, lease_s=1)
    driver.advance(2)
    driver.ack("a", "b", ("c", "retry"))
    again = driver.pop()
    assert (named(again), attempts(again)) == (["c", "d"], [1])


def test_an_unfenced_ack_of_a_released_delivery_keeps_the_count_of_its_rest(driver: Driver) -> None:
    driver.push("a", "b", "c")
    driver.ack(("a", "retry"), lease=driver.pop(2).lease_id)
    driver.ack("a")
    again = driver.pop()
    assert (named(again), attempts(again)) == (["b"], [2])


def test_an_unfenced_ack_of_all_of_a_released_delivery_resets(driver: Driver) -> None:
    driver.configure(retryLimit=1)
    driver.push("a", "b", "c")
    driver.ack(("a", "failed"), lease=driver.pop(2).lease_id)
    driver.ack("b")
    again = driver.pop()
    assert (named(again), attempts(again)) == (["c"], [1])
    assert not driver.ack(("c", "failed"), lease=again.lease_id)[0].dlq
