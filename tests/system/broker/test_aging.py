"""Retention by time: each rule alone and together, bounded steps, and what must survive it."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from atleastonce.system.broker.aging import IDLE_PARTITION_US
from atleastonce.system.broker.aging_records import AgedOut, Retain, RetainReply
from atleastonce.system.broker.aging_walk import VISITS_MAX
from atleastonce.system.broker.commands import Push, PushItem
from atleastonce.system.broker.queries import Fetch, FetchEntry
from atleastonce.system.broker.replies import FetchReply, PushReply

from .broker_driver import SECOND_US, Driver, attempts


def offsets(driver: Driver, partition: str = "p", queue: str = "q") -> list[int]:
    """Offsets of the retained messages."""
    reply = driver.machine.read(Fetch((FetchEntry(queue, partition, 0),)), driver.clock_us)
    assert isinstance(reply, FetchReply)
    (entry,) = reply.entries
    return list(range(entry.log_start, entry.high_watermark))


def retain(driver: Driver, limit: int = 10_000) -> list[AgedOut]:
    """One step over the first three partitions and both queues."""
    return list(driver.ask(Retain(("1", "2", "3"), ("q", "r"), limit), RetainReply).queues)


def walk(driver: Driver, seconds: float = 30) -> int:
    """Let the leader's walk run for a while; returns how often it proposed something."""
    proposals = 0
    for _ in range(int(seconds * 10)):
        driver.advance(0.1)
        command = driver.machine.due_retention(driver.clock_us)
        if command is not None:
            proposals += 1
            driver.apply(command)
    return proposals


def test_without_rules_nothing_ever_goes(driver: Driver) -> None:
    driver.push("a", "b")
    driver.ack("a", "b", lease=driver.pop().lease_id)
    driver.advance(IDLE_PARTITION_US / SECOND_US * 3)
    assert retain(driver) == []
    assert offsets(driver) == [0, 1]


def test_retention_seconds_takes_what_is_older_read_or_not(driver: Driver) -> None:
    driver.configure(retentionEnabled=True, retentionSeconds=100)
    driver.push("a")
    driver.advance(60)
    driver.push("b")
    driver.advance(39)
    assert retain(driver) == []
    driver.advance(2)
    assert retain(driver) == [AgedOut("q", retained=1)]
    assert offsets(driver) == [1]


def test_retention_needs_its_switch_and_eviction_does_not(driver: Driver) -> None:
    driver.configure(retentionSeconds=10, completedRetentionSeconds=10)
    driver.configure("r", maxWaitTimeSeconds=10)
    driver.push("a")
    driver.push("a", queue="r")
    driver.advance(11)
    assert retain(driver) == [AgedOut("r", evicted=1)]
    assert offsets(driver) == [0]


def test_completed_retention_waits_for_the_slowest_group(driver: Driver) -> None:
    driver.configure(retentionEnabled=True, completedRetentionSeconds=10)
    driver.push("a", "b", "c")
    driver.advance(11)
    assert retain(driver) == [], "nobody reads this queue yet"
    for group, count in (("fast", 3), ("slow", 1)):
        driver.ack(
            *["a", "b", "c"][:count], lease=driver.pop(count, group=group).lease_id, group=group
        )
    assert retain(driver) == [AgedOut("q", completed=1)]
    assert offsets(driver) == [1, 2]


def test_completed_messages_stay_until_they_are_old(driver: Driver) -> None:
    driver.configure(retentionEnabled=True, completedRetentionSeconds=10)
    driver.push("a")
    driver.ack("a", lease=driver.pop().lease_id)
    driver.advance(9)
    assert retain(driver) == []
    driver.advance(2)
    assert retain(driver) == [AgedOut("q", completed=1)]


def test_a_group_that_only_registered_holds_completed_messages(driver: Driver) -> None:
    driver.configure(retentionEnabled=True, completedRetentionSeconds=10)
    driver.pop(group="late", batch=1)
    driver.push("a")
    driver.ack("a", lease=driver.pop().lease_id)
    driver.advance(20)
    assert retain(driver) == []


def test_what_a_live_lease_holds_stays_until_it_ends(driver: Driver) -> None:
    driver.configure(maxWaitTimeSeconds=10)
    driver.push("a", "b", "c")
    lease = driver.pop(2, lease_s=30).lease_id
    driver.advance(20)
    assert retain(driver) == []
    assert driver.ack(("b", "dlq"), lease=lease)[0].dlq
    assert [letter.message.payload for letter in driver.dead()] == [b"1"]
    assert retain(driver) == [AgedOut("q", evicted=3)]
    assert driver.depth() == (0, 0, 0)


def test_a_repeated_pop_gets_its_claim_although_it_is_too_old(driver: Driver) -> None:
    driver.configure(maxWaitTimeSeconds=10)
    driver.push("a", "b")
    first = driver.pop(2, lease_s=60, request_id="same")
    driver.advance(20)
    retain(driver)
    again = driver.pop(2, lease_s=60, request_id="same")
    assert (again.lease_id, again.runs) == (first.lease_id, first.runs)


def test_cursors_move_to_the_end_of_what_is_gone(driver: Driver) -> None:
    driver.configure(maxWaitTimeSeconds=10)
    driver.push("a", "b")
    driver.pop(1, group="g", lease_s=1)
    driver.advance(11)
    driver.push("c")
    assert retain(driver) == [AgedOut("q", evicted=2)]
    assert driver.depth(group="g") == (1, 0, 1)
    assert driver.ack("a", group="g")[0].noop
    assert "committed" in driver.ack(("b", "failed"), group="g")[0].error
    reply = driver.pop(group="g")
    assert ([m.offset for m in reply.runs[0].messages], attempts(reply)) == ([2], [1])


def test_a_dead_lease_over_the_cut_keeps_its_count_for_what_is_left(driver: Driver) -> None:
    driver.configure(maxWaitTimeSeconds=10)
    driver.push("a")
    driver.advance(8)
    driver.push("b")
    driver.pop(2, lease_s=1)
    driver.advance(3)
    assert retain(driver) == [AgedOut("q", evicted=1)]
    reply = driver.pop(2)
    assert ([m.offset for m in reply.runs[0].messages], attempts(reply)) == ([1], [2])


def test_a_spent_retry_budget_goes_with_its_message(driver: Driver) -> None:
    driver.configure(maxWaitTimeSeconds=10, retryLimit=1)
    driver.push("a")
    driver.advance(8)
    driver.push("b")
    driver.ack(("a", "failed"), lease=driver.pop(2).lease_id)
    driver.advance(3)
    retain(driver)
    assert driver.ack(("b", "failed"), lease=driver.pop(2).lease_id)[0].dlq is False


def test_an_emptied_partition_goes_on_at_its_next_offset(driver: Driver) -> None:
    driver.configure(retentionEnabled=True, retentionSeconds=10)
    driver.push("a", "b")
    driver.pop(1, lease_s=1)
    driver.advance(20)
    retain(driver)
    assert (offsets(driver), driver.depth()) == ([], (0, 0, 0))
    assert not driver.can_pop()
    (item,) = driver.push("c")
    assert item.offset == 2
    assert driver.names() == ["c"]


def test_ids_outlive_payloads_for_the_longest_of_three_times(driver: Driver) -> None:
    for queue, window_s, completed_s, known_s in (
        ("q", 2000, 10, 2000),
        ("r", 5, 1500, 1500),
        ("s", 5, 10, 900),
    ):
        driver.configure(
            queue,
            maxWaitTimeSeconds=10,
            dedupWindowSeconds=window_s,
            completedRetentionSeconds=completed_s,
        )
        (item,) = driver.push("a", queue=queue)
        partition_id = driver.pop(queue=queue, lease_s=1).runs[0].partition_id
        step = Retain((partition_id,))
        driver.advance(11)
        driver.apply(step)
        driver.advance(known_s - 13)
        driver.apply(step)
        assert driver.ack("a", partition_id=partition_id)[0].noop
        if window_s > known_s - 13:
            (again,) = driver.push("a", queue=queue)
            assert (again.status, again.offset) == ("duplicate", item.offset)
        driver.advance(4)
        driver.apply(step)
        assert "unresolv" in driver.ack("a", partition_id=partition_id)[0].error


def test_one_step_lets_go_of_at_most_its_limit(driver: Driver) -> None:
    driver.configure(maxWaitTimeSeconds=10)
    driver.push(*"abcde")
    driver.push(*"abc", partition="r")
    driver.advance(11)
    assert retain(driver, limit=4) == [AgedOut("q", evicted=4)]
    assert (offsets(driver), offsets(driver, "r")) == ([4], [0, 1, 2])
    assert retain(driver, limit=2) == [AgedOut("q", evicted=2)]
    assert (offsets(driver), offsets(driver, "r")) == ([], [1, 2])


def test_each_message_is_counted_once_under_the_first_rule_that_takes_it(driver: Driver) -> None:
    driver.configure(
        retentionEnabled=True,
        completedRetentionSeconds=10,
        retentionSeconds=20,
        maxWaitTimeSeconds=15,
    )
    driver.push("a", "b")
    driver.ack("a", lease=driver.pop(1).lease_id)
    driver.advance(4)
    driver.push("c")
    driver.advance(17)
    driver.push("d")
    assert retain(driver) == [AgedOut("q", completed=1, retained=1, evicted=1)]


def test_dead_letters_go_with_their_queues_retention(driver: Driver) -> None:
    driver.configure(retentionEnabled=True, retentionSeconds=100, dedupWindowSeconds=0)
    for name in ("a", "b"):
        driver.push(name)
        driver.ack((name, "dlq"), lease=driver.pop().lease_id)
        driver.advance(60)
    assert retain(driver) == [AgedOut("q", retained=1, dead=1)]
    assert [letter.message.transaction_id for letter in driver.dead()] == ["b"]


def test_an_idle_partition_goes_after_a_month_and_comes_back_new(driver: Driver) -> None:
    driver.configure(retentionEnabled=True, retentionSeconds=10)
    driver.push("a")
    driver.pop(lease_s=1)
    driver.advance(20)
    retain(driver)
    driver.advance(IDLE_PARTITION_US / SECOND_US - 30)
    assert retain(driver) == []
    driver.advance(31)
    assert retain(driver) == [AgedOut("q", partitions=1)]
    (item,) = driver.push("b")
    reply = driver.pop()
    assert (item.offset, reply.runs[0].partition_id) == (0, "2")


def test_the_walk_finds_what_is_due_and_then_rests(driver: Driver) -> None:
    driver.configure(maxWaitTimeSeconds=10)
    driver.push(*"abc")
    assert walk(driver, 9) == 0
    assert walk(driver, 4) == 1
    assert offsets(driver) == []
    assert walk(driver, 60) == 0
    assert driver.machine.next_retention_us > driver.clock_us


def test_the_walk_comes_back_until_a_large_backlog_is_gone(driver: Driver) -> None:
    driver.configure(maxWaitTimeSeconds=10)
    for part in range(3):
        items = tuple(PushItem("q", "p", f"{part}-{at}", b"1") for at in range(9000))
        driver.ask(Push("", items), PushReply)
    driver.advance(11)
    assert walk(driver, 2) == 3
    assert offsets(driver) == []


def test_a_step_of_the_walk_looks_at_a_bounded_number_of_partitions(driver: Driver) -> None:
    driver.configure(maxWaitTimeSeconds=10)
    count = VISITS_MAX * 2 + 100
    driver.ask(
        Push("", tuple(PushItem("q", f"p{at}", "a", b"1") for at in range(count))), PushReply
    )
    driver.advance(11)
    found: list[int] = []
    while sum(found) < count:
        driver.advance(0.1)
        command = driver.machine.due_retention(driver.clock_us)
        assert isinstance(command, Retain)
        found.append(len(command.partitions))
        driver.apply(command)
    assert found == [VISITS_MAX, VISITS_MAX, 100]


def test_the_walk_forgets_ids_of_queues_without_rules_within_an_hour(driver: Driver) -> None:
    driver.configure(maxWaitTimeSeconds=10)
    driver.push("a")
    driver.pop(lease_s=1)
    walk(driver, 15)
    driver.configure(maxWaitTimeSeconds=0, dedupWindowSeconds=0)
    driver.advance(1000)
    assert driver.ack("a")[0].noop
    driver.advance(3600)
    walk(driver, 1)
    assert "unresolv" in driver.ack("a")[0].error


@settings(max_examples=60)
@given(st.data())
def test_cuts_agree_with_a_naive_rule_for_each_message(data: st.DataObject) -> None:
    driver = Driver()
    rules: dict[str, int] = {
        name: data.draw(st.sampled_from([0, 5, 20]), label=name)
        for name in ("retentionSeconds", "completedRetentionSeconds", "maxWaitTimeSeconds")
    }
    enabled = data.draw(st.booleans(), label="enabled")
    driver.configure("q", retentionEnabled=enabled, **rules)
    created: list[int] = []
    committed: dict[str, int] = {}
    start = 0
    for _ in range(data.draw(st.integers(1, 25), label="steps")):
        driver.advance(data.draw(st.sampled_from([0, 1, 4, 11]), label="seconds"))
        action = data.draw(st.sampled_from(["push", "g", "h", "retain"]), label="action")
        if action == "push":
            driver.push(f"m{len(created)}")
            created.append(driver.machine.now_us)
        elif action == "retain":
            retain(driver)
            now = driver.machine.now_us
            while start < len(created):
                age = now - created[start]
                passed = bool(committed) and start <= min(committed.values())
                taken = (
                    (enabled and 0 < rules["retentionSeconds"] * SECOND_US < age)
                    or (0 < rules["maxWaitTimeSeconds"] * SECOND_US < age)
                    or (
                        enabled
                        and 0 < rules["completedRetentionSeconds"] * SECOND_US < age
                        and passed
                    )
                )
                if not taken:
                    break
                start += 1
            committed = {group: max(at, start - 1) for group, at in committed.items()}
            assert offsets(driver) == list(range(start, len(created)))
        elif created:
            reply = driver.pop(1, group=action, auto_ack=True)
            committed[action] = committed.get(action, start - 1) + len(reply.runs)
        if not created:
            continue
        for group in committed:
            known = driver.depth(group=group)[0]
            assert known == len(created) - max(committed[group] + 1, start)
