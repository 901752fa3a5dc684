"""Push: offsets, ids, creation, deduplication."""

from __future__ import annotations

from atleastonce.system.broker.commands import Push, PushItem
from atleastonce.system.broker.replies import PushReply

from .broker_driver import Driver


def test_offsets_are_gapless_from_zero_in_each_partition(driver: Driver) -> None:
    assert [item.offset for item in driver.push("a", "b")] == [0, 1]
    assert [item.offset for item in driver.push("c", partition="other")] == [0]
    assert [item.offset for item in driver.push("d")] == [2]


def test_message_ids_increase_over_batches_and_inside_one(driver: Driver) -> None:
    ids = [
        item.message_id
        for number in range(5)
        for item in driver.push(f"first-{number}", f"second-{number}")
    ]
    assert ids == sorted(set(ids))
    assert all(len(text) == 36 and text[14] == "7" and text[19] in "89ab" for text in ids)


def test_a_push_creates_queue_and_partition(driver: Driver) -> None:
    driver.push("a", queue="new", partition="fresh")
    assert driver.names(queue="new") == ["a"]


def test_a_repeated_push_answers_duplicate_with_first_id_and_offset(driver: Driver) -> None:
    driver.push("before")
    (first,) = driver.push("a")
    driver.push("after")
    (again,) = driver.push("a")
    assert (again.status, again.message_id, again.offset) == ("duplicate", first.message_id, 1)
    assert driver.names() == ["before", "a", "after"]


def test_the_same_transaction_id_in_another_partition_is_another_message(driver: Driver) -> None:
    driver.push("a", partition="p")
    assert driver.push("a", partition="r")[0].status == "queued"


def test_the_dedup_window_runs_from_the_push(driver: Driver) -> None:
    driver.configure(dedupWindowSeconds=100)
    driver.push("a")
    driver.advance(99)
    assert driver.push("a")[0].status == "duplicate"
    driver.advance(1.5)
    assert driver.push("a")[0].status == "queued"


def test_a_completed_message_is_still_deduplicated(driver: Driver) -> None:
    driver.push("a")
    driver.ack("a", lease=driver.pop().lease_id)
    assert driver.push("a")[0].status == "duplicate"


def test_a_repeat_inside_one_call_is_a_duplicate_even_without_a_window(driver: Driver) -> None:
    driver.configure(dedupWindowSeconds=0)
    first, second = driver.push("a", "a")
    assert (first.status, second.status) == ("queued", "duplicate")
    assert second.message_id == first.message_id


def test_without_a_window_a_later_push_is_stored_again(driver: Driver) -> None:
    driver.configure(dedupWindowSeconds=0)
    driver.push("a")
    assert driver.push("a")[0].status == "queued"
    assert driver.names() == ["a", "a"]


def test_without_a_window_the_same_request_gets_its_first_answer(driver: Driver) -> None:
    driver.configure(dedupWindowSeconds=0)
    command = Push("same", (PushItem("q", "p", "a", b"1"),))
    first = driver.ask(command, PushReply)
    assert driver.ask(command, PushReply) == first
    assert driver.names() == ["a"]


def test_a_push_without_transaction_id_is_idempotent_by_its_request(driver: Driver) -> None:
    command = Push("same", (PushItem("q", "p", "", b"1"), PushItem("q", "p", "", b"2")))
    first = driver.ask(command, PushReply)
    assert [item.transaction_id for item in first.items] == [
        item.message_id for item in first.items
    ]
    assert driver.ask(command, PushReply) == first
    assert len(driver.names()) == 2


def test_payload_bytes_come_back_untouched(driver: Driver) -> None:
    payload = b'{"a" : 1.0e2, "b":"\\u00e9"}'
    driver.push("a", payload=payload)
    assert driver.pop().runs[0].messages[0].payload == payload


def test_two_pushes_of_one_id_in_one_batch_store_one_message(driver: Driver) -> None:
    command = Push("", (PushItem("q", "p", "a", b"1"),))
    first, second = driver.apply(command, command)
    assert isinstance(first, PushReply)
    assert isinstance(second, PushReply)
    assert [first.items[0].status, second.items[0].status] == ["queued", "duplicate"]


def test_a_repeat_of_the_same_request_gets_its_first_answer(driver: Driver) -> None:
    names = ("a", "b", "a")
    command = Push("same", tuple(PushItem("q", "p", name, b"1") for name in names))
    first = driver.ask(command, PushReply)
    assert [item.status for item in first.items] == ["queued", "queued", "duplicate"]
    driver.push("c")
    assert driver.ask(command, PushReply) == first
    assert [item.status for item in driver.push("a", "b")] == ["duplicate", "duplicate"]
    assert driver.names() == ["a", "b", "c"]
