"""Configure, deletion, depth, dead letters, fetch, retention."""

from __future__ import annotations

from atleastonce.system.broker.commands import Configure, DeleteDeadLetter, DeleteQueue
from atleastonce.system.broker.options import OPTION_NAMES
from atleastonce.system.broker.queries import Depth, DlqList, Fetch, FetchEntry
from atleastonce.system.broker.replies import (
    ConfigureReply,
    DeleteDeadLetterReply,
    DeleteQueueReply,
    DepthReply,
    DlqReply,
    FetchedEntry,
    FetchReply,
)

from .broker_driver import Driver


def delete(driver: Driver, queue: str = "q", request_id: str = "") -> bool:
    return driver.ask(DeleteQueue(request_id, queue), DeleteQueueReply).existed


def fetch(
    driver: Driver, *entries: FetchEntry, min_bytes: int = 1, max_bytes: int = 1 << 20
) -> FetchReply:
    reply = driver.machine.read(Fetch(entries, min_bytes, max_bytes), driver.clock_us)
    assert isinstance(reply, FetchReply)
    return reply


def records(entry: FetchedEntry) -> list[str]:
    return [message.transaction_id for message in entry.records]


def test_configure_echoes_every_option_with_its_default(driver: Driver) -> None:
    reply = driver.configure()
    assert tuple(reply.options) == OPTION_NAMES
    assert (reply.options["leaseTime"], reply.options["retryLimit"]) == (300, 3)
    assert reply.options["retryDelay"] == 1000


def test_merge_keeps_what_is_absent_and_null_restores_the_default(driver: Driver) -> None:
    driver.configure(leaseTime=5, priority=7)
    options = driver.configure(leaseTime=None).options
    assert (options["leaseTime"], options["priority"]) == (300, 7)


def test_replace_restores_what_is_absent(driver: Driver) -> None:
    driver.configure(priority=7)
    command = Configure("", "q", {"maxSize": 9}, replace=True)
    options = driver.ask(command, ConfigureReply).options
    assert (options["priority"], options["maxSize"]) == (0, 9)


def test_configuring_an_implicit_queue_keeps_its_lease_time(driver: Driver) -> None:
    driver.push("a")
    assert driver.configure(priority=1).options["leaseTime"] == 60


def test_labels_come_from_a_dotted_name_unless_given(driver: Driver) -> None:
    derived = driver.configure("shop.orders")
    assert (derived.namespace, derived.task) == ("shop", "orders")
    command = Configure("", "plain", {}, "n", "t")
    given = driver.ask(command, ConfigureReply)
    assert (given.namespace, given.task) == ("n", "t")
    assert driver.configure("plain").namespace == "n"


def test_configure_keeps_the_queue_id(driver: Driver) -> None:
    assert driver.configure().queue_id == driver.configure().queue_id


def test_deleting_a_queue_removes_messages_cursors_and_dead_letters(driver: Driver) -> None:
    driver.push("a", "b")
    lease = driver.pop(1).lease_id
    driver.ack(("a", "dlq"), lease=lease)
    held = driver.pop(1).lease_id
    assert delete(driver)
    assert driver.extend(held, 60).renewed == 0
    assert "consumer not found" in driver.ack("b", lease=held)[0].error
    assert driver.dead() == []
    assert driver.push("a")[0].status == "queued"
    assert driver.names() == ["a"]


def test_deleting_an_unknown_queue_says_so(driver: Driver) -> None:
    assert not delete(driver)


def test_a_repeated_delete_gets_its_first_answer_and_spares_the_new_queue(driver: Driver) -> None:
    driver.push("a")
    assert delete(driver, request_id="same")
    driver.push("b")
    assert delete(driver, request_id="same")
    assert driver.names() == ["b"]


def test_a_partition_id_is_never_used_again(driver: Driver) -> None:
    driver.push("a")
    first = driver.pop().runs[0].partition_id
    delete(driver)
    driver.push("a")
    assert driver.pop().runs[0].partition_id != first


def test_depth_splits_pending_into_processing_and_ready(driver: Driver) -> None:
    driver.push("a", "b", "c", partition="p")
    driver.push("d", partition="r")
    reply = driver.pop(2, partitions=1, lease_s=10)
    assert driver.depth() == (4, 2, 2)
    driver.ack("a", lease=reply.lease_id)
    assert driver.depth() == (3, 1, 2)
    driver.advance(11)
    assert driver.depth() == (3, 0, 3)


def test_depth_of_a_group_that_never_came_counts_everything(driver: Driver) -> None:
    driver.push("a", "b")
    driver.pop()
    assert driver.depth(group="stranger") == (2, 0, 2)


def test_depth_of_an_unknown_queue_has_no_partitions(driver: Driver) -> None:
    assert driver.machine.read(Depth("none"), 0) == DepthReply("none", "__QUEUE_MODE__", None)


def test_dead_letters_are_listed_newest_first_filtered_and_paged(driver: Driver) -> None:
    for number in range(3):
        driver.push(f"m{number}", partition=f"p{number}")
        reply = driver.pop(group="g")
        partition_id = reply.runs[0].partition_id
        driver.ack(
            (f"m{number}", "dlq"), lease=reply.lease_id, group="g", partition_id=partition_id
        )
        driver.advance(1)

    def listed(query: DlqList) -> list[str]:
        page = driver.machine.read(query, driver.clock_us)
        assert isinstance(page, DlqReply)
        return [letter.message.transaction_id for letter in page.letters]

    assert listed(DlqList()) == ["m2", "m1", "m0"]
    assert listed(DlqList("q", "g", limit=1, offset=1)) == ["m1"]
    assert listed(DlqList("q", "other")) == []
    assert listed(DlqList("none")) == []
    assert listed(DlqList(partition="p1")) == ["m1"]


def test_deleting_a_dead_letter_names_partition_and_transaction_id(driver: Driver) -> None:
    driver.push("a")
    for group in ("g", "h"):
        driver.ack(("a", "dlq"), lease=driver.pop(group=group).lease_id, group=group)

    def deleted(partition_id: str, name: str) -> int:
        command = DeleteDeadLetter("", partition_id, name)
        return driver.ask(command, DeleteDeadLetterReply).deleted

    assert deleted("1", "other") == 0
    assert deleted("9", "a") == 0
    assert deleted("1", "a") == 2
    assert driver.dead() == []


def test_fetch_reads_from_an_offset_without_a_cursor(driver: Driver) -> None:
    driver.push("a", "b", "c")
    driver.ack("c", lease=driver.pop().lease_id)
    reply = fetch(driver, FetchEntry("q", "p", 1))
    assert (records(reply.entries[0]), reply.is_final) == (["b", "c"], True)
    assert (reply.entries[0].high_watermark, reply.entries[0].log_start) == (3, 0)


def test_fetch_at_the_high_watermark_waits(driver: Driver) -> None:
    driver.push("a")
    reply = fetch(driver, FetchEntry("q", "p", 1))
    assert (reply.entries[0].records, reply.entries[0].error, reply.is_final) == ((), "", False)


def test_fetch_above_the_high_watermark_is_out_of_range_at_once(driver: Driver) -> None:
    driver.push("a")
    reply = fetch(driver, FetchEntry("q", "p", 2**62 - 1), FetchEntry("q", "p", 1))
    assert (reply.entries[0].error, reply.entries[0].high_watermark) == ("OFFSET_OUT_OF_RANGE", 1)
    assert reply.is_final


def test_fetch_knows_missing_queues_from_unwritten_partitions(driver: Driver) -> None:
    driver.push("a")
    missing = fetch(driver, FetchEntry("none", "p", 0))
    assert (missing.entries[0].error, missing.is_final) == ("UNKNOWN_TOPIC_OR_PARTITION", True)
    unwritten = fetch(driver, FetchEntry("q", "unwritten", 0))
    assert (unwritten.entries[0].error, unwritten.is_final) == ("", False)


def test_fetch_keeps_to_its_budgets_but_returns_one_large_message(driver: Driver) -> None:
    driver.push("a", "b", "c", payload=b'"0123456789"')
    small = fetch(driver, FetchEntry("q", "p", 0, max_bytes=25))
    assert records(small.entries[0]) == ["a", "b"]
    large = fetch(driver, FetchEntry("q", "p", 0, max_bytes=1), FetchEntry("q", "p", 0))
    assert records(large.entries[0]) == ["a"]
    total = fetch(driver, FetchEntry("q", "p", 0), FetchEntry("q", "p", 0), max_bytes=40)
    assert [len(entry.records) for entry in total.entries] == [3, 0]


def test_fetch_waits_for_its_minimum(driver: Driver) -> None:
    driver.push("a")
    assert not fetch(driver, FetchEntry("q", "p", 0), min_bytes=100).is_final
