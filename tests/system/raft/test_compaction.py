"""Logs whose head was dropped behind a checkpoint, and followers that need what was dropped."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from atleastonce.system.raft.core import (
    Checkpoint,
    Compact,
    Members,
    Persist,
    Persisted,
    RaftLog,
    Role,
    SendSnapshot,
    SnapshotInstalled,
    SnapshotSent,
)
from atleastonce.system.raft.log import LogStart
from atleastonce.system.raft.messages import AppendEntries, AppendReply
from atleastonce.system.raft.recovery import LogHoleError, recovered_log
from atleastonce.verifier.simulation.scripted import (
    THREE,
    ScriptedCluster,
    ScriptedServer,
    entries_of,
)

MEMBERS = Members(THREE)


def accepted(term: int, match_index: int) -> AppendReply:
    return AppendReply(term, True, match_index, 0)


def append(
    term: int, prev_index: int, prev_term: int, terms: list[int], commit: int = 0
) -> AppendEntries:
    return AppendEntries(term, prev_index, prev_term, commit, 0, entries_of(terms, prev_index + 1))


def leader_without_head() -> ScriptedServer:
    """n1 leads term 4; its log starts at 11 and ends at 14; n3 has all of it, n2 nothing."""
    leader = ScriptedServer(log=[3, 3, 3], start_index=11, previous_term=2)
    leader.win()
    leader.receive("n3", accepted(4, 14))
    leader.sent.clear()
    return leader


# The log


@given(st.lists(st.integers(1, 4), min_size=1, max_size=20), st.data())
def test_a_compacted_log_answers_as_before_for_what_it_still_holds(
    terms: list[int], data: st.DataObject
) -> None:
    entries = entries_of(sorted(terms))
    whole, compacted = RaftLog(entries), RaftLog(entries)
    index = data.draw(st.integers(1, len(entries)))
    compacted.compact(index)
    assert (compacted.start_index, len(compacted)) == (index + 1, len(entries) - index)
    assert (compacted.last_index, compacted.last_term) == (whole.last_index, whole.last_term)
    for at in range(index, len(entries) + 2):
        assert compacted.term_at(at) == whole.term_at(at)
    assert compacted.between(index + 1, whole.last_index) == whole.between(
        index + 1, whole.last_index
    )


def test_an_emptied_log_goes_on_from_its_start() -> None:
    log = RaftLog(entries_of([1, 1]))
    log.reset(LogStart(9, 4))
    assert (log.start_index, log.last_index, log.last_term, log.term_at(9)) == (10, 9, 4, 4)
    log.append(entries_of([4], 10))
    assert log.entry_at(10).term == 4


# Compaction


def test_a_compacted_server_applies_and_replicates_on() -> None:
    cluster = ScriptedCluster(*(ScriptedServer(name, log=[1] * 10) for name in THREE))
    leader = cluster.elect("n1")
    cluster.pass_time(200_000)
    for server in cluster.servers.values():
        server.step(Compact(9))
        assert server.core.log.start_index == 10
    leader.propose(b"x")
    cluster.pass_time(200_000)
    for server in cluster.servers.values():
        assert [entry.index for entry in server.applied] == list(range(1, 13))


def test_compacting_again_or_less_changes_nothing() -> None:
    server = ScriptedServer()
    server.receive("n2", append(1, 0, 0, [1, 1, 1], commit=3))
    server.step(Compact(2))
    server.step(Compact(1))
    server.step(Compact(2))
    assert (server.core.log.start_index, server.core.log.previous_term) == (3, 1)


def test_compacting_what_is_not_applied_breaks_an_invariant() -> None:
    server = ScriptedServer()
    server.receive("n2", append(1, 0, 0, [1, 1, 1], commit=2))
    with pytest.raises(AssertionError, match="compact-range"):
        server.step(Compact(3))


def test_a_replicating_follower_that_lags_behind_the_new_start_is_probed_there() -> None:
    leader = ScriptedServer(max_inflight_appends=1, max_append_entries=1)
    leader.win()
    leader.receive("n2", accepted(1, 1))
    leader.receive("n3", accepted(1, 1))
    for _ in range(5):
        leader.propose(b"x")
    for index in range(2, 7):
        leader.receive("n2", accepted(1, index))
    leader.sent.clear()
    leader.step(Compact(5))
    leader.tick()
    [probe] = leader.take_sent(AppendEntries, "n3")
    assert (probe.prev_index, probe.prev_term) == (5, 1)


# A follower that needs dropped entries


def test_a_follower_that_needs_dropped_entries_is_sent_a_snapshot_once() -> None:
    leader = leader_without_head()
    leader.receive("n2", AppendReply(4, False, 13, 0, 0, 4))
    assert leader.outcomes_of(SendSnapshot) == [SendSnapshot("n2", 10)]
    leader.receive("n2", AppendReply(4, False, 10, 1, 0, 4))
    leader.tick()
    assert leader.outcomes_of(SendSnapshot) == [SendSnapshot("n2", 10)]


def test_heartbeats_go_on_during_a_snapshot_and_fit_any_log() -> None:
    leader = leader_without_head()
    leader.receive("n2", AppendReply(4, False, 13, 0, 0, 4))
    leader.sent.clear()
    leader.tick()
    [sign] = leader.take_sent(AppendEntries, "n2")
    assert (sign.prev_index, sign.prev_term, sign.entries) == (0, 0, ())
    follower = ScriptedServer("n2", log=[1, 1, 2])
    [answer] = follower.receive("n1", sign)
    assert answer == AppendReply(4, True, 0, sign.round)
    leader.now_us += 50_000
    leader.receive("n2", answer)
    assert leader.core.contact_us_of("n2") == leader.now_us


def test_after_the_snapshot_the_entries_behind_it_follow() -> None:
    leader = leader_without_head()
    leader.receive("n2", AppendReply(4, False, 13, 0, 0, 4))
    leader.sent.clear()
    leader.step(SnapshotSent("n2", 12, True))
    [message] = leader.take_sent(AppendEntries, "n2")
    assert (message.prev_index, message.prev_term) == (12, 3)
    assert [entry.index for entry in message.entries] == [13, 14]


def test_after_a_snapshot_of_everything_a_sign_of_life_tells_where_the_follower_is() -> None:
    leader = leader_without_head()
    leader.receive("n2", AppendReply(4, False, 13, 0, 0, 4))
    leader.sent.clear()
    leader.step(SnapshotSent("n2", 14, True))
    [message] = leader.take_sent(AppendEntries, "n2")
    assert (message.prev_index, message.entries) == (14, ())
    leader.receive("n2", accepted(4, 14))
    assert leader.core.match_index_of("n2") == 14


def test_a_failed_snapshot_is_asked_for_again_after_the_next_heartbeat() -> None:
    leader = leader_without_head()
    leader.receive("n2", AppendReply(4, False, 13, 0, 0, 4))
    leader.sent.clear()
    leader.step(SnapshotSent("n2", 12, False))
    assert leader.sent == []
    leader.tick()
    [probe] = leader.take_sent(AppendEntries, "n2")
    assert probe.prev_index == 10
    leader.receive("n2", AppendReply(4, False, 10, probe.round, 0, 4))
    assert leader.outcomes_of(SendSnapshot) == [SendSnapshot("n2", 10)] * 2


def test_what_comes_behind_a_snapshot_under_way_is_not_compacted() -> None:
    leader = leader_without_head()
    leader.receive("n2", AppendReply(4, False, 13, 0, 0, 4))
    leader.step(Compact(14))
    assert leader.core.log.start_index == 11
    leader.step(SnapshotSent("n2", 12, True))
    leader.step(Compact(14))
    assert leader.core.log.start_index == 15


def test_a_snapshot_that_ends_after_the_leadership_did_changes_nothing() -> None:
    leader = leader_without_head()
    leader.receive("n2", AppendReply(4, False, 13, 0, 0, 4))
    leader.receive("n3", append(5, 14, 4, []))
    assert leader.core.role is Role.FOLLOWER
    leader.sent.clear()
    leader.step(SnapshotSent("n2", 12, True))
    assert leader.sent == []


def test_a_follower_that_has_the_entry_before_the_start_needs_no_snapshot() -> None:
    leader = leader_without_head()
    leader.receive("n2", AppendReply(4, False, 13, 0, 2, 6))
    [probe] = leader.take_sent(AppendEntries, "n2")
    assert probe.prev_index == 10
    assert leader.outcomes_of(SendSnapshot) == []


# Installing one


def test_an_installed_snapshot_replaces_a_log_that_does_not_reach_it() -> None:
    server = ScriptedServer("n2", log=[1, 1, 2])
    server.receive("n1", append(4, 0, 0, []))
    assert server.core.wants_snapshot(12)
    server.syncs_at_once = False
    server.step(SnapshotInstalled(12, 3, MEMBERS))
    [persist] = server.writes
    assert persist == Persist(persist.sequence, None, None, (), LogStart(12, 3))
    assert (server.core.applied_index, server.core.commit_index) == (12, 12)
    assert (server.core.last_index, server.core.durable_index) == (12, 12)
    assert not server.core.wants_snapshot(12)
    [answer] = server.receive("n1", append(4, 12, 3, [], commit=12))
    assert answer == accepted(4, 12)


def test_an_installed_snapshot_keeps_a_log_that_goes_on_from_it() -> None:
    server = ScriptedServer("n2")
    server.receive("n1", append(1, 0, 0, [1] * 8, commit=2))
    server.step(SnapshotInstalled(5, 1, MEMBERS))
    assert server.writes == []
    assert (server.core.log.start_index, server.core.last_index) == (1, 8)
    server.receive("n1", append(1, 8, 1, [], commit=7))
    assert [entry.index for entry in server.applied] == [1, 2, 6, 7]


def test_a_snapshot_behind_what_is_applied_changes_nothing() -> None:
    server = ScriptedServer("n2")
    server.receive("n1", append(1, 0, 0, [1] * 8, commit=6))
    assert not server.core.wants_snapshot(5)
    server.step(SnapshotInstalled(5, 1, Members(("x",))))
    assert (server.core.applied_index, server.core.members) == (6, MEMBERS)


def test_writes_in_flight_before_a_snapshot_do_not_count_behind_it() -> None:
    server = ScriptedServer("n2")
    server.syncs_at_once = False
    server.receive("n1", append(1, 0, 0, [1] * 20, commit=0))
    first = server.writes[-1].sequence
    server.receive("n3", append(3, 0, 0, []))
    server.step(SnapshotInstalled(12, 3, MEMBERS))
    server.receive("n3", append(3, 12, 3, [3, 3], commit=14))
    server.step(Persisted(first))
    assert server.core.durable_index == 12
    assert [entry.index for entry in server.applied] == []
    server.sync()
    assert server.core.durable_index == 14
    assert [entry.index for entry in server.applied] == [13, 14]


def test_a_server_that_knows_a_lower_term_than_the_snapshots_takes_that_term() -> None:
    server = ScriptedServer("n2", term=1, voted_for="n2")
    server.syncs_at_once = False
    server.step(SnapshotInstalled(12, 3, MEMBERS))
    [persist] = server.writes
    assert persist.hard_state is not None
    assert (persist.hard_state.term, persist.hard_state.voted_for) == (3, None)


def test_a_snapshot_that_contradicts_committed_entries_breaks_an_invariant() -> None:
    server = ScriptedServer("n2")
    server.syncs_at_once = False
    server.receive("n1", append(2, 0, 0, [1, 1, 2], commit=3))
    assert server.core.applied_index == 0
    with pytest.raises(AssertionError, match="committed-truncated"):
        server.step(SnapshotInstalled(2, 2, MEMBERS))


# A restart


def test_a_restarted_server_applies_behind_its_checkpoint_only() -> None:
    recovered = recovered_log(entries_of([1, 1, 1, 1], 7), 7, Checkpoint(8, 1, MEMBERS))
    assert recovered.reset is None
    assert recovered.log.start_index == 8
    server = ScriptedServer(
        log=[1, 1, 1], start_index=8, previous_term=1, checkpoint=Checkpoint(8, 1, MEMBERS)
    )
    assert (server.core.commit_index, server.core.applied_index) == (8, 8)
    server.receive("n2", append(2, 10, 1, [], commit=10))
    assert [entry.index for entry in server.applied] == [9, 10]


def test_a_restart_between_activation_and_reset_drops_the_old_log() -> None:
    short = recovered_log(entries_of([1, 1, 1]), 1, Checkpoint(9, 4, MEMBERS))
    rival = recovered_log(entries_of([1] * 12), 1, Checkpoint(9, 4, MEMBERS))
    for recovered in (short, rival):
        assert recovered.reset == LogStart(9, 4)
        assert (recovered.log.start_index, recovered.log.last_term) == (10, 4)
    server = ScriptedServer(
        start_index=10, previous_term=4, term=1, checkpoint=Checkpoint(9, 4, MEMBERS)
    )
    assert server.core.term == 4


def test_a_restart_with_a_log_that_reaches_the_checkpoint_keeps_it() -> None:
    whole = recovered_log(entries_of([1] * 12), 1, Checkpoint(9, 1, MEMBERS))
    assert (whole.reset, whole.log.start_index, whole.log.last_index) == (None, 1, 12)
    exact = recovered_log(entries_of([2] * 3, 10), 10, Checkpoint(9, 1, MEMBERS))
    assert (exact.reset, exact.log.start_index, exact.log.previous_term) == (None, 10, 1)


def test_a_log_that_starts_behind_the_checkpoint_is_refused() -> None:
    with pytest.raises(LogHoleError, match="starts at entry 11, the checkpoint ends at 9"):
        recovered_log(entries_of([2] * 3, 11), 11, Checkpoint(9, 1, MEMBERS))


def test_a_core_refuses_a_log_with_a_hole_before_it() -> None:
    with pytest.raises(AssertionError, match="log-hole"):
        ScriptedServer(log=[2], start_index=11, previous_term=1, checkpoint=Checkpoint(9, 1))


def test_a_whole_cluster_brings_an_empty_follower_up_by_a_snapshot() -> None:
    servers = [ScriptedServer(name, log=[1] * 20) for name in ("n1", "n2")]
    late = ScriptedServer("n3")
    cluster = ScriptedCluster(*servers, late)
    cluster.cut.add("n3")
    leader = cluster.elect("n1")
    cluster.pass_time(200_000)
    leader.step(Compact(18))
    cluster.cut.clear()
    cluster.pass_time(300_000)
    [wanted] = leader.outcomes_of(SendSnapshot)
    late.step(SnapshotInstalled(20, 1, MEMBERS))
    leader.step(SnapshotSent(wanted.to, 20, True))
    leader.propose(b"x")
    cluster.pass_time(200_000)
    assert [entry.index for entry in late.applied] == [21, 22]
    assert late.core.last_index == leader.core.last_index
    assert leader.applied[-1] == late.applied[-1]
