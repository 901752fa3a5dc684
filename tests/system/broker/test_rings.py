"""Ephemeral queues in memory: groups, leases, retries, bounds, ages, epochs."""

from __future__ import annotations

import random

import pytest

from atleastonce.system.broker.ephemeral_options import DeclareRing, RingOptions
from atleastonce.system.broker.rings import IDLE_US, NODE_BYTES_MAX, Rings

SECOND_US = 1_000_000


class Queue:
    """One queue `q` with a clock."""

    def __init__(self, options: RingOptions | None = None) -> None:
        declared = {} if options is None else {"q": DeclareRing("q", options, b"{}")}
        self.rings = Rings("e1", declared)
        self.now_us = 1_000_000_000

    def push(self, *payloads: str, partition: str = "p") -> str:
        data = [payload.encode() for payload in payloads]
        return self.rings.push("q", partition, data, self.now_us).refusal

    def pop(
        self, count: int = 1, group: str = "", partition: str | None = None, final: bool = False
    ) -> list[tuple[str, int]]:
        taken = self.rings.pop("q", partition, group, count, final, self.now_us)
        return [(message.payload.decode(), message.attempts) for message in taken]

    def ids(self, count: int = 1, group: str = "") -> list[str]:
        taken = self.rings.pop("q", None, group, count, False, self.now_us)
        return [self.rings.id_of(message) for message in taken]

    def ack(self, name: str, completes: bool = True, group: str = "") -> str:
        return self.rings.ack("q", group, name, completes, self.now_us)

    def held(self) -> int:
        gauges = self.rings.gauges("q", self.now_us)
        return 0 if gauges is None else gauges.depth


def test_a_partition_delivers_in_order_and_lets_go_of_what_is_settled() -> None:
    queue = Queue()
    queue.push("a", "b", "c")
    ids = queue.ids(2)
    assert ids == ["e:e1:p:0", "e:e1:p:1"]
    assert [queue.ack(name) for name in ids] == ["acked", "acked"]
    assert (queue.pop(), queue.held()) == ([("c", 0)], 1)


def test_a_group_shares_its_work_and_groups_do_not() -> None:
    queue = Queue()
    queue.push("a", "b")
    assert [queue.pop(group="g"), queue.pop(group="g"), queue.pop(group="g")] == [
        [("a", 0)],
        [("b", 0)],
        [],
    ]
    assert queue.pop(5, group="h") == [("a", 0), ("b", 0)]
    assert queue.pop(5) == [("a", 0), ("b", 0)]


def test_a_message_stays_until_its_last_group_has_settled_it() -> None:
    queue = Queue()
    queue.pop(group="g")
    queue.pop(group="h")
    queue.push("a")
    assert queue.ack(queue.ids(group="g")[0], group="g") == "acked"
    assert queue.held() == 1
    assert queue.pop(group="h", final=True) == [("a", 0)]
    assert queue.held() == 0


def test_a_group_that_reads_all_partitions_reads_those_to_come() -> None:
    queue = Queue()
    assert queue.pop(group="late") == []
    queue.push("a", partition="new")
    queue.pop(group="fast", final=True)
    assert queue.pop(group="late") == [("a", 0)]


def test_failed_messages_come_back_first_and_at_once_until_the_limit() -> None:
    queue = Queue(RingOptions(retry_limit=2))
    queue.push("a", "b")
    for attempts in (0, 1, 2):
        (name,) = queue.ids()
        expected = "redelivered" if attempts < 2 else "acked"
        assert queue.ack(name, completes=False) == expected
    gauges = queue.rings.gauges("q", queue.now_us)
    assert gauges is not None
    assert (gauges.drops, queue.pop()) == ((0, 0, 1), [("b", 0)])


def test_a_lease_that_runs_out_delivers_again_and_its_ack_is_unknown() -> None:
    queue = Queue(RingOptions(lease_s=5))
    queue.push("a")
    (name,) = queue.ids()
    queue.now_us += 4 * SECOND_US
    assert queue.pop() == []
    assert queue.rings.next_due_us("q", None, "") == queue.now_us + SECOND_US
    queue.now_us += SECOND_US
    assert queue.ack(name) == "unknown"
    assert queue.pop() == [("a", 1)]


def test_acks_tell_another_leaderships_message_from_a_lost_lease() -> None:
    queue = Queue()
    queue.push("a")
    (name,) = queue.ids()
    assert queue.ack(name.replace("e1", "e0")) == "stale"
    assert queue.ack(name, group="other") == "unknown"
    assert [queue.ack(name), queue.ack(name)] == ["acked", "unknown"]
    for nonsense in ("", "e", "e:e1:p:", "e:e1:p:x", "x:e1:p:0", "e:e1:p:-1", "e:e1:no:0"):
        assert queue.ack(nonsense) == "unknown"


def test_a_partitions_name_may_hold_colons() -> None:
    queue = Queue()
    queue.push("a", partition="room:7:b")
    (name,) = queue.ids()
    assert queue.ack(name) == "acked"


@pytest.mark.parametrize("options", [RingOptions(max_length=3), RingOptions(max_bytes=3)])
def test_a_push_that_would_exceed_a_bound_is_refused_as_a_whole(options: RingOptions) -> None:
    queue = Queue(options)
    assert queue.push("a", "b") == ""
    assert queue.push("c", "d") == "queue_full"
    assert queue.held() == 2
    assert queue.push("c") == ""


def test_drop_oldest_makes_room_and_counts_what_a_group_missed() -> None:
    queue = Queue(RingOptions(max_length=3, policy="dropOldest"))
    queue.push("a", "b", "c")
    queue.pop(group="g")
    queue.push("d", "e")
    assert queue.pop(5, group="g") == [("c", 0), ("d", 0), ("e", 0)]
    gauges = queue.rings.gauges("q", queue.now_us)
    assert gauges is not None
    assert (gauges.drops, gauges.groups) == ((2, 0, 0), (("g", 3, 1),))
    assert queue.push("1", "2", "3", "4") == "queue_full"


def test_drop_oldest_takes_from_the_partition_with_the_oldest_message() -> None:
    queue = Queue(RingOptions(max_length=2, policy="dropOldest"))
    queue.push("a", partition="x")
    queue.now_us += 1
    queue.push("b", partition="y")
    queue.now_us += 1
    queue.push("c", partition="y")
    assert queue.pop(5, partition="x") == []
    assert queue.pop(5, partition="y") == [("b", 0), ("c", 0)]


def test_messages_go_when_they_are_too_old_read_or_not() -> None:
    queue = Queue(RingOptions(ttl_s=10))
    queue.push("a")
    queue.now_us += 5 * SECOND_US
    queue.push("b")
    (name,) = queue.ids()
    queue.now_us += 5 * SECOND_US
    assert (queue.held(), queue.ack(name)) == (1, "unknown")
    assert queue.pop(5) == [("b", 0)]


def test_reset_drops_everything_and_voids_leases() -> None:
    queue = Queue()
    queue.push("a", "b")
    (name,) = queue.ids()
    assert queue.rings.reset("q") == 2
    assert (queue.ack(name), queue.pop(), queue.rings.held_bytes) == ("unknown", [], 0)
    queue.push("c")
    assert queue.pop() == [("c", 0)]
    assert queue.rings.reset("unknown") == 0


def test_the_node_as_a_whole_has_a_bound() -> None:
    queue = Queue()
    half = [b"x" * 1000] * 8000
    for place in range(NODE_BYTES_MAX // 8_000_000):
        assert queue.rings.push(f"q{place}", "p", half, 0).refusal == ""
    assert queue.rings.push("q", "p", half, 0).refusal == "ephemeral_unavailable"
    assert queue.rings.remove("q0")
    assert queue.rings.push("q", "p", half, 0).refusal == ""


def test_unused_queues_and_groups_are_forgotten() -> None:
    queue = Queue()
    queue.push("a")
    queue.pop(group="gone", final=True)
    queue.push("b")
    queue.now_us += IDLE_US
    queue.rings.sweep(queue.now_us)
    gauges = queue.rings.gauges("q", queue.now_us)
    assert gauges is not None
    assert (gauges.groups, gauges.depth) == ((), 1)
    queue.pop(final=True)
    queue.now_us += IDLE_US
    queue.rings.sweep(queue.now_us)
    assert queue.rings.gauges("q", queue.now_us) is None


def test_a_declared_queue_is_there_before_its_first_message() -> None:
    queue = Queue(RingOptions(max_length=10**9, max_bytes=10**12))
    gauges = queue.rings.gauges("q", queue.now_us)
    assert gauges is not None
    assert (gauges.is_declared, gauges.depth) == (True, 0)
    assert (gauges.options.max_length, gauges.options.max_bytes) == (10_000, 16 << 20)


def test_nothing_is_lost_or_doubled_by_any_mix_of_outcomes() -> None:
    chance = random.Random(7)
    queue = Queue(RingOptions(lease_s=3, retry_limit=1000))
    pushed: list[str] = []
    done: dict[str, list[str]] = {"g": [], "h": []}
    out: list[tuple[str, str, str]] = []
    for group in done:
        queue.pop(group=group)
    for step in range(3000):
        queue.now_us += chance.choice((0, 0, SECOND_US))
        dice = chance.random()
        if dice < 0.25 and step < 2500:
            pushed.append(f"{step}")
            queue.push(pushed[-1], partition=chance.choice("xyz"))
        elif dice < 0.6:
            group = chance.choice("gh")
            taken = queue.rings.pop("q", None, group, 3, False, queue.now_us)
            out += [(group, queue.rings.id_of(each), each.payload.decode()) for each in taken]
        elif out:
            group, name, payload = out.pop(chance.randrange(len(out)))
            completes = chance.random() < 0.7
            if queue.ack(name, completes, group) == "acked":
                done[group].append(payload)
    for group in done:
        queue.now_us += 10 * SECOND_US
        while rest := queue.pop(100, group=group, final=True):
            done[group] += [payload for payload, _ in rest]
    for group, payloads in done.items():
        assert sorted(payloads) == sorted(pushed), group
    assert (queue.held(), queue.rings.held_bytes) == (0, 0)
