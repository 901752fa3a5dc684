"""Appends ahead of their answers: window, batches, loss, doubling, reordering."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from atleastonce.system.raft.core import Role
from atleastonce.system.raft.messages import AppendEntries, AppendReply
from atleastonce.verifier.simulation.scripted import ScriptedCluster, ScriptedServer


def replicating_leader(
    max_inflight_appends: int = 64, max_append_entries: int = 64, max_append_bytes: int = 1 << 20
) -> ScriptedServer:
    server = ScriptedServer(
        max_inflight_appends=max_inflight_appends,
        max_append_entries=max_append_entries,
        max_append_bytes=max_append_bytes,
    )
    server.win()
    server.receive("n2", AppendReply(1, True, 1, 0))
    server.receive("n3", AppendReply(1, True, 1, 0))
    server.sent.clear()
    return server


def test_a_replicating_follower_gets_appends_before_it_has_answered_earlier_ones() -> None:
    server = replicating_leader()
    for payload in (b"a", b"b", b"c"):
        server.propose(payload)
    sent = server.take_sent(AppendEntries, "n2")
    assert [message.prev_index for message in sent] == [1, 2, 3]


def test_no_more_appends_are_on_their_way_than_the_window_allows() -> None:
    server = replicating_leader(max_inflight_appends=2)
    for _ in range(5):
        server.propose(b"x")
    assert [message.prev_index for message in server.take_sent(AppendEntries, "n2")] == [1, 2]
    server.receive("n2", AppendReply(1, True, 2, 0))
    [message] = server.take_sent(AppendEntries, "n2")
    assert (message.prev_index, len(message.entries)) == (3, 3)


def test_a_full_window_does_not_stop_heartbeats() -> None:
    server = replicating_leader(max_inflight_appends=1)
    server.propose(b"x")
    server.propose(b"y")
    server.sent.clear()
    server.tick()
    [message] = server.take_sent(AppendEntries, "n2")
    assert (message.prev_index, message.entries) == (2, ())


def test_a_backlog_is_sent_in_batches_within_both_limits() -> None:
    server = replicating_leader(max_append_entries=3, max_append_bytes=10)
    server.propose(*(b"12345" for _ in range(7)), b"x" * 99)
    sent = server.take_sent(AppendEntries, "n2")
    assert [len(message.entries) for message in sent] == [2, 2, 2, 1, 1]


def test_a_probed_follower_gets_one_append_at_a_time() -> None:
    server = ScriptedServer()
    server.win()
    server.sent.clear()
    server.propose(b"a")
    server.propose(b"b")
    assert server.take_sent(AppendEntries, "n2") == []
    server.receive("n2", AppendReply(1, True, 1, 0))
    [message] = server.take_sent(AppendEntries, "n2")
    assert (message.prev_index, len(message.entries)) == (1, 2)


def test_a_lost_append_is_noticed_by_the_next_and_sent_again() -> None:
    server = replicating_leader()
    server.propose(b"lost")
    server.propose(b"refused")
    server.sent.clear()
    server.receive("n2", AppendReply(1, False, 2, 0, 0, 2))
    [message] = server.take_sent(AppendEntries, "n2")
    assert (message.prev_index, len(message.entries)) == (1, 2)


def test_a_lost_last_append_is_noticed_by_the_next_heartbeat() -> None:
    leader, follower = ScriptedServer("n1"), ScriptedServer("n2", entropy=max)
    cluster = ScriptedCluster(leader, follower, ScriptedServer("n3", entropy=max))
    cluster.elect("n1")
    leader.propose(b"x")
    leader.sent.clear()
    cluster.pass_time(101_000)
    assert follower.core.last_index == leader.core.last_index == 2


def test_a_late_refusal_from_before_the_follower_caught_up_is_ignored() -> None:
    server = replicating_leader()
    server.propose(b"x")
    server.receive("n2", AppendReply(1, True, 2, 0))
    server.sent.clear()
    server.receive("n2", AppendReply(1, False, 1, 0, 0, 1))
    server.propose(b"y")
    question, message = server.take_sent(AppendEntries, "n2")
    assert question.entries == ()
    assert message.prev_index == 2


def test_a_match_index_never_falls() -> None:
    server = replicating_leader()
    server.propose(b"x", b"y")
    server.receive("n2", AppendReply(1, True, 3, 0))
    server.receive("n2", AppendReply(1, True, 1, 0))
    assert server.core.commit_index == 3
    server.propose(b"z")
    assert server.take_sent(AppendEntries, "n2")[-1].prev_index == 3


def test_an_impossible_answer_is_ignored() -> None:
    server = replicating_leader()
    server.receive("n2", AppendReply(1, True, 99, 0))
    server.receive("n2", AppendReply(1, True, 1, 42))
    server.propose(b"x")
    assert server.core.commit_index == 1
    server.receive("n2", AppendReply(1, False, 1, 0, 0, 10**9))
    assert server.core.role is Role.LEADER


@settings(max_examples=60)
@given(
    st.lists(st.integers(0, 99), max_size=80),
    st.sampled_from([1, 2, 64]),
    st.sampled_from([1, 3, 64]),
)
def test_any_loss_doubling_and_reordering_ends_in_equal_logs(
    choices: list[int], window: int, batch: int
) -> None:
    leader, follower = (
        ScriptedServer(name, max_inflight_appends=window, max_append_entries=batch)
        for name in ("n1", "n2")
    )
    follower.now_us = 0
    leader.win()
    wire = [("n2", message) for to, message in leader.sent if to == "n2"]
    for number, choice in enumerate(choices):
        leader.sent.clear()
        follower.sent.clear()
        if choice < 20:
            leader.propose(b"%d" % number)
        elif choice < 30:
            leader.receive("n3", AppendReply(1, False, 0, 0))
            leader.tick()
        elif wire:
            to, message = wire[choice % len(wire)]
            if choice % 5:
                wire.remove((to, message))
            if choice % 7:
                (follower if to == "n2" else leader).receive("n1" if to == "n2" else "n2", message)
        wire += [("n2", message) for to, message in leader.sent if to == "n2"]
        wire += [("n1", message) for to, message in follower.sent if to == "n1"]
    leader.sent.clear()
    follower.sent.clear()
    for _ in range(400):
        leader.receive("n3", AppendReply(1, False, 0, 0))
        leader.tick()
        _exchange(leader, follower)
        if follower.core.commit_index == leader.core.last_index:
            break
    log = leader.core.log
    assert follower.core.log.between(1, log.last_index) == log.between(1, log.last_index)
    assert follower.core.commit_index == log.last_index


def _exchange(leader: ScriptedServer, follower: ScriptedServer) -> None:
    while leader.sent or follower.sent:
        to_follower = [message for to, message in leader.sent if to == "n2"]
        to_leader = [message for to, message in follower.sent if to == "n1"]
        leader.sent.clear()
        follower.sent.clear()
        for message in to_follower:
            follower.receive("n1", message)
        for message in to_leader:
            leader.receive("n2", message)


def test_overtaken_appends_make_no_flood() -> None:
    # Each refusal once sent a whole window again, whose refusals did the same.
    leader, follower = (
        ScriptedServer("n1", log=[1] * 200, max_append_entries=1),
        ScriptedServer("n2"),
    )
    leader.win()
    sent = refusals = 0
    flight = [message for to, message in leader.sent if to == "n2"]
    while flight:
        leader.sent.clear()
        answers = []
        for message in reversed(flight):
            sent += 1
            answers += follower.receive("n1", message)
        for answer in answers:
            assert not isinstance(answer, AppendEntries)
            refusals += isinstance(answer, AppendReply) and not answer.success
            leader.receive("n2", answer)
        flight = [message for to, message in leader.sent if to == "n2"]
    assert follower.core.last_index == leader.core.last_index == 201
    assert refusals > 20
    assert sent < 5 * 201
