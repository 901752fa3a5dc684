"""Groups, dead letters, messages, traces and discovery by an operator's hand."""

from __future__ import annotations

from atleastonce.system.broker.administrative import (
    AddTrace,
    DeleteGroup,
    PurgeDeadLetters,
    ReplayDeadLetter,
    Resubscribe,
    SeekGroup,
)
from atleastonce.system.broker.commands import Configure, Pop
from atleastonce.system.broker.inspection_replies import (
    ChangedReply,
    DeadLetterReplayed,
    DeadLettersPurged,
    GroupDeleted,
    GroupResubscribed,
    GroupSought,
    GroupsReply,
    MessageReply,
    MessagesReply,
    QueuesReply,
    TraceAdded,
    TraceNamesReply,
    TracesReply,
)
from atleastonce.system.broker.queries import (
    Changed,
    ChangedQuery,
    GroupList,
    MessageGet,
    MessageList,
    QueueList,
    TraceList,
)
from atleastonce.system.broker.replies import ConfigureReply, PopReply, Reply
from atleastonce.system.broker.retention import COMPLETED_BYTES_MAX
from atleastonce.system.broker.traces import TRACES_MAX

from .broker_driver import SECOND_US, Driver, named


def delete_group(driver: Driver, forgets: bool = True, queue: str | None = None) -> GroupDeleted:
    return driver.ask(DeleteGroup(driver.request_id(), "g", queue, forgets), GroupDeleted)


def seek(driver: Driver, since_us: int | None, partition: str | None = None) -> int | None:
    command = SeekGroup(driver.request_id(), "g", "q", since_us, partition)
    return driver.ask(command, GroupSought).moved


def discover(driver: Driver, namespace: str | None = None, task: str | None = None) -> PopReply:
    command = Pop(
        request_id=driver.request_id(),
        queue="",
        partitions=0,
        group="g",
        subscribe="all",
        namespace=namespace,
        task=task,
    )
    return driver.ask(command, PopReply)


def label(driver: Driver, queue: str, namespace: str, task: str) -> None:
    command = Configure(driver.request_id(), queue, {}, namespace, task)
    driver.ask(command, ConfigureReply)


def asked(driver: Driver, query: MessageGet | MessageList | GroupList | QueueList) -> Reply:
    return driver.machine.read(query, driver.clock_us)


def test_a_deleted_group_begins_anew_and_its_lease_is_void(driver: Driver) -> None:
    driver.push("a", "b")
    lease = driver.pop(1, group="g").lease_id
    assert delete_group(driver) == GroupDeleted("g", None, 1, True)
    assert driver.extend(lease, 60).renewed == 0
    assert driver.names(group="g") == ["a", "b"]


def test_a_group_deleted_without_its_registration_keeps_its_instant(driver: Driver) -> None:
    driver.push("old")
    command = Pop(request_id="r", queue="q", group="g", subscribe="new")
    driver.ask(command, PopReply)
    driver.push("new")
    assert driver.names(group="g") == ["new"]
    assert delete_group(driver, forgets=False, queue="q") == GroupDeleted("g", "q", 1, False)
    assert driver.names(group="g") == ["new"]


def test_deleting_a_group_that_nobody_knows_deletes_nothing(driver: Driver) -> None:
    driver.push("a")
    assert delete_group(driver) == GroupDeleted("g", None, 0, False)
    assert delete_group(driver, queue="x") == GroupDeleted("g", "x", 0, False)


def test_messages_of_a_partition_whose_groups_are_gone_are_kept(driver: Driver) -> None:
    big = b'"' + b"x" * (COMPLETED_BYTES_MAX // 2 - 1024) + b'"'
    for name in ("a", "b"):
        driver.push(name, payload=big)
    reply = driver.pop(group="g")
    driver.ack("b", lease=reply.lease_id, group="g")
    delete_group(driver)
    driver.push("c", partition="other", payload=big)
    other = driver.pop(queue="q", partition="other")
    driver.ack("c", lease=other.lease_id, partition_id="2")
    assert driver.names(group="g") == ["a", "b", "c"]


def test_seek_goes_back_forward_and_to_the_end(driver: Driver) -> None:
    driver.push("a")
    middle_us = driver.machine.now_us + 1
    driver.advance(5)
    driver.push("b", "c")
    lease = driver.pop(group="g").lease_id
    assert seek(driver, middle_us) == 1
    assert driver.extend(lease, 60).renewed == 0
    assert driver.names(group="g") == ["b", "c"]
    seek(driver, None)
    assert driver.names(group="g") == []
    seek(driver, 0)
    assert driver.names(group="g") == ["a", "b", "c"]


def test_a_redelivery_after_a_seek_counts_from_one(driver: Driver) -> None:
    driver.push("a")
    driver.pop(group="g")
    seek(driver, 0)
    assert driver.pop(group="g").runs[0].attempt == 1


def test_seek_of_one_partition_leaves_the_others(driver: Driver) -> None:
    driver.push("a", partition="p")
    driver.push("b", partition="r")
    assert seek(driver, None, "p") == 1
    assert driver.names(group="g") == ["b"]
    assert seek(driver, None, "nowhere") is None
    assert driver.ask(SeekGroup("", "g", "nowhere"), GroupSought).moved is None


def test_a_new_subscription_instant_moves_untouched_cursors_only(driver: Driver) -> None:
    driver.push("a", partition="p")
    driver.push("b", partition="r")
    driver.pop(1, group="g", partitions=1)
    driver.advance(1)
    command = Resubscribe(driver.request_id(), "g", driver.clock_us)
    assert driver.ask(command, GroupResubscribed).registrations == 1
    driver.advance(60)
    assert driver.names(group="g") == ["a"]


def test_a_replayed_dead_letter_goes_behind_all_others_once(driver: Driver) -> None:
    driver.push("a", "b")
    reply = driver.pop(1)
    driver.ack(("a", "dlq"), lease=reply.lease_id)
    (letter,) = driver.dead()
    command = ReplayDeadLetter("same", letter.dead_letter_id)
    replayed = driver.ask(command, DeadLetterReplayed)
    assert (replayed.original_transaction_id, replayed.offset) == ("a", 2)
    assert driver.ask(command, DeadLetterReplayed) == replayed
    assert driver.dead() == []
    assert driver.names() == ["b", f"dlq:{letter.dead_letter_id}"]
    gone = driver.ask(ReplayDeadLetter("", letter.dead_letter_id), DeadLetterReplayed)
    assert gone.dead_letter_id == ""


def test_a_dead_letter_is_found_by_its_address_and_may_go_elsewhere(driver: Driver) -> None:
    driver.push("a")
    driver.ack(("a", "dlq"), lease=driver.pop().lease_id)
    command = ReplayDeadLetter("", "", "1", "a", "elsewhere", "x")
    assert driver.ask(command, DeadLetterReplayed).queue == "elsewhere"
    assert len(driver.names(queue="elsewhere")) == 1
    for missing in (ReplayDeadLetter("", "", "1", "a"), ReplayDeadLetter("", "", "9", "a")):
        assert driver.ask(missing, DeadLetterReplayed).dead_letter_id == ""


def test_purge_removes_one_groups_dead_letters_or_all(driver: Driver) -> None:
    driver.push("a")
    for group in ("g", "h"):
        driver.ack(("a", "dlq"), lease=driver.pop(group=group).lease_id, group=group)
    assert driver.ask(PurgeDeadLetters("", "q", "g"), DeadLettersPurged).deleted == 1
    assert driver.ask(PurgeDeadLetters("", "q"), DeadLettersPurged).deleted == 1
    assert driver.ask(PurgeDeadLetters("", "nowhere"), DeadLettersPurged).deleted == 0


def test_discovery_claims_from_every_queue_with_the_labels(driver: Driver) -> None:
    label(driver, "a", "shop", "orders")
    label(driver, "b", "shop", "mail")
    label(driver, "c", "bank", "orders")
    for queue in "abc":
        driver.push(f"m-{queue}", queue=queue)
    reply = discover(driver, namespace="shop")
    assert (reply.queue, [run.queue for run in reply.runs]) == ("", ["a", "b"])
    assert named(discover(driver, task="orders")) == ["m-c"]
    assert discover(driver, namespace="shop", task="none").is_empty
    assert driver.extend(reply.lease_id, 60).renewed == 2


def test_a_discovery_that_would_find_nothing_stays_out_of_the_log(driver: Driver) -> None:
    label(driver, "a", "shop", "orders")
    pop = Pop(request_id="", queue="", group="g", subscribe="all", namespace="shop")
    assert driver.machine.can_pop(pop, driver.clock_us)
    discover(driver, namespace="shop")
    assert not driver.machine.can_pop(pop, driver.clock_us)
    driver.push("m", queue="a")
    assert driver.machine.can_pop(pop, driver.clock_us)


def test_a_message_says_what_each_group_did_with_it(driver: Driver) -> None:
    driver.push("a", "b")
    driver.pop(1, group="g", auto_ack=True)
    lease = driver.pop(1, group="h")
    reply = asked(driver, MessageGet("1", "a"))
    assert isinstance(reply, MessageReply)
    assert reply.view is not None
    g, h = reply.view.groups
    assert (g.consumed, g.lease_expires_us, h.consumed) == (True, None, False)
    assert h.lease_expires_us is not None
    assert reply.view.status == "processing"
    driver.ack("a", lease=lease.lease_id, group="h")
    done = asked(driver, MessageGet("1", "a"))
    assert isinstance(done, MessageReply)
    assert done.view is not None
    assert done.view.status == "completed"


def test_a_message_that_is_nowhere_is_none(driver: Driver) -> None:
    driver.push("a")
    for query in (MessageGet("1", "x"), MessageGet("9", "a")):
        assert asked(driver, query) == MessageReply(None)


def test_messages_are_listed_newest_first_by_status_and_window(driver: Driver) -> None:
    driver.push("a")
    driver.advance(10)
    driver.push("b")
    driver.ack(("a", "dlq"), lease=driver.pop(1).lease_id)
    end_us = driver.clock_us + SECOND_US

    def listed(**fields: str | int) -> list[tuple[str, str]]:
        query = MessageList(**{"from_us": 0, "to_us": end_us, **fields})  # type: ignore[arg-type]
        reply = asked(driver, query)
        assert isinstance(reply, MessagesReply)
        return [(view.message.transaction_id, view.status) for view in reply.views]

    assert listed() == [("b", "pending"), ("a", "dead_letter")]
    assert listed(status="pending") == [("b", "pending")]
    assert listed(limit=1, offset=1) == [("a", "dead_letter")]
    assert listed(from_us=driver.clock_us - SECOND_US) == [("b", "pending")]
    assert listed(queue="x") == listed(partition="x") == []


def test_groups_and_queues_are_counted(driver: Driver) -> None:
    driver.push("a", "b", "c")
    driver.pop(2, group="g")
    driver.advance(30)
    groups = asked(driver, GroupList("g"))
    assert isinstance(groups, GroupsReply)
    (view,) = groups.groups
    assert (view.lag, view.lag_s, view.processing, view.cursors) == (3, 30, 0, 1)
    assert asked(driver, GroupList("g", 31)) == GroupsReply(())
    queues = asked(driver, QueueList("q"))
    assert isinstance(queues, QueuesReply)
    assert queues.queues[0].partitions[0].pending == 3
    assert asked(driver, QueueList("x")) == QueuesReply(())


def test_changed_partitions_come_in_pages_from_an_instant_on(driver: Driver) -> None:
    for name in "abc":
        driver.push("m", partition=name)
    since_us = driver.machine.now_us
    first = driver.machine.read(Changed((ChangedQuery("q", 0, 0, 2),)), driver.clock_us)
    assert isinstance(first, ChangedReply)
    (entry,) = first.entries
    assert (entry.after, first.safe_us) == ("2", since_us)
    rest = driver.machine.read(Changed((ChangedQuery("q", 0, 2, 2),)), driver.clock_us)
    assert isinstance(rest, ChangedReply)
    assert rest.entries[0].partitions is not None
    assert [row.name for row in rest.entries[0].partitions] == ["c"]
    assert rest.entries[0].after is None
    late = driver.machine.read(
        Changed((ChangedQuery("q", since_us), ChangedQuery("x"))), driver.clock_us
    )
    assert isinstance(late, ChangedReply)
    assert late.entries[0].partitions is not None
    assert [row.name for row in late.entries[0].partitions] == ["c"]
    assert late.entries[1].partitions is None


def test_traces_are_found_by_message_and_name_and_the_oldest_go(driver: Driver) -> None:
    def trace(name: str) -> TraceAdded:
        command = AddTrace(driver.request_id(), "1", "a", "g", (name,), "info", b"{}")
        return driver.ask(command, TraceAdded)

    added = trace("first")
    reply = driver.machine.read(TraceList("1", "a"), driver.clock_us)
    assert isinstance(reply, TracesReply)
    assert [row.trace_id for row in reply.rows] == [added.trace_id]
    commands = [AddTrace("", "1", "b", "g", ("many",), "info", b"1") for _ in range(TRACES_MAX)]
    driver.apply(*commands)
    names = driver.machine.read(TraceList(), driver.clock_us)
    assert names == TraceNamesReply((("many", TRACES_MAX),))
    assert driver.machine.read(TraceList(name="first"), driver.clock_us) == TracesReply(())
