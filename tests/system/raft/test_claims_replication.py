"""The Raft paper, claim by claim: log replication and commitment (§5.3, §5.4.2)."""

from __future__ import annotations

import pytest

from atleastonce.system.raft.core import Appended, Apply, MemberRegressed, Receive, Refused
from atleastonce.system.raft.messages import AppendEntries, AppendReply, EntryKind
from atleastonce.verifier.simulation.scripted import (
    FIVE,
    THREE,
    ScriptedCluster,
    ScriptedServer,
    entries_of,
)


def append(
    term: int, prev_index: int, prev_term: int, terms: list[int], commit: int = 0
) -> AppendEntries:
    entries = entries_of(terms, prev_index + 1)
    return AppendEntries(term, prev_index, prev_term, commit, 0, entries)


def terms_of(server: ScriptedServer) -> list[int]:
    log = server.core.log
    return [entry.term for entry in log.between(log.start_index, log.last_index)]


def accepted(term: int, match_index: int) -> AppendReply:
    return AppendReply(term, True, match_index, 0)


# §5.3 Log replication


def test_5_3_a_leader_appends_a_command_and_sends_it_to_every_follower() -> None:
    server = ScriptedServer()
    server.win()
    server.receive("n2", accepted(1, 1))
    server.receive("n3", accepted(1, 1))
    server.sent.clear()
    server.propose(b"x")
    assert server.outcomes_of(Appended) == [Appended(1, 1, 2)]
    for peer in ("n2", "n3"):
        [message] = [sent for to, sent in server.sent if to == peer]
        assert isinstance(message, AppendEntries)
        [entry] = message.entries
        assert (entry.term, entry.index, entry.kind) == (1, 2, EntryKind.COMMAND)
        assert (message.prev_index, message.prev_term, entry.data) == (1, 1, b"x")


def test_5_3_a_server_that_does_not_lead_refuses_and_names_the_leader() -> None:
    server = ScriptedServer()
    server.propose(b"x")
    server.receive("n3", append(1, 0, 0, []))
    server.propose(b"y")
    assert server.outcomes_of(Refused) == [Refused(1, None), Refused(1, "n3")]
    assert server.core.last_index == 0


def test_5_3_an_entry_commits_when_a_majority_has_it_and_not_before() -> None:
    server = ScriptedServer(voters=FIVE)
    server.win()
    server.receive("n2", accepted(1, 1))
    assert server.core.commit_index == 0
    server.receive("n2", accepted(1, 1))
    assert server.core.commit_index == 0
    server.receive("n3", accepted(1, 1))
    assert server.core.commit_index == 1
    assert [entry.index for entry in server.applied] == [1]


def test_5_3_committing_an_entry_commits_all_before_it() -> None:
    server = ScriptedServer(log=[1, 1, 2])
    server.win()
    server.receive("n2", accepted(3, 4))
    assert server.core.commit_index == 4
    assert [entry.index for entry in server.applied] == [1, 2, 3, 4]


def test_5_3_followers_learn_of_commits_from_later_appends_and_apply_in_order() -> None:
    server = ScriptedServer()
    server.receive("n2", append(1, 0, 0, [1, 1, 1]))
    assert server.applied == []
    server.receive("n2", append(1, 3, 1, [], commit=2))
    assert [entry.index for entry in server.applied] == [1, 2]
    server.receive("n2", append(1, 3, 1, [1], commit=9))
    assert [entry.index for entry in server.applied] == [1, 2, 3, 4]


def test_5_3_a_follower_commits_no_further_than_the_append_proves_equal() -> None:
    server = ScriptedServer(log=[1, 1, 1])
    server.receive("n2", append(2, 1, 1, [], commit=3))
    assert server.core.commit_index == 1


def test_5_3_each_entry_is_applied_exactly_once() -> None:
    server = ScriptedServer()
    for _ in range(3):
        server.receive("n2", append(1, 0, 0, [1, 1], commit=2))
    assert [entry.index for entry in server.applied] == [1, 2]


def test_5_3_a_follower_refuses_an_append_whose_previous_entry_it_does_not_have() -> None:
    server = ScriptedServer(log=[1, 1])
    [missing] = server.receive("n2", append(3, 5, 2, [3]))
    [different] = server.receive("n2", append(3, 2, 2, [3]))
    assert isinstance(missing, AppendReply)
    assert isinstance(different, AppendReply)
    assert not missing.success
    assert not different.success
    assert terms_of(server) == [1, 1]


def test_5_3_a_conflicting_entry_and_all_after_it_are_replaced_by_the_leaders() -> None:
    server = ScriptedServer(log=[1, 1, 2, 2, 2])
    server.syncs_at_once = False
    server.receive("n2", append(3, 2, 1, [1, 3]))
    assert terms_of(server) == [1, 1, 1, 3]
    assert server.writes[-1].truncate_from == 3


def test_5_3_entries_that_agree_are_kept_even_when_the_append_is_older_than_the_log() -> None:
    server = ScriptedServer(log=[1, 1, 1, 1])
    [reply] = server.receive("n2", append(1, 1, 1, [1]))
    assert terms_of(server) == [1, 1, 1, 1]
    assert reply == accepted(1, 2)
    server.receive("n2", append(1, 3, 1, [1, 1]))
    assert terms_of(server) == [1, 1, 1, 1, 1]


def test_5_3_a_leader_never_overwrites_its_own_entries() -> None:
    server = ScriptedServer(log=[1, 2, 2])
    server.win()
    server.receive("n2", AppendReply(3, False, 3, 0, 1, 1))
    server.receive("n3", AppendReply(3, False, 3, 0, 0, 1))
    assert terms_of(server) == [1, 2, 2, 3]


def test_5_3_logs_of_equal_index_and_term_are_equal_up_to_there() -> None:
    # Figure 7: the leader of term 8 and six followers with missing and extra entries.
    leader = ScriptedServer(
        "n1", ("n1", "a", "b", "c", "d", "e", "f"), [1, 1, 1, 4, 4, 5, 5, 6, 6, 6]
    )
    logs = {
        "a": [1, 1, 1, 4, 4, 5, 5, 6, 6],
        "b": [1, 1, 1, 4],
        "c": [1, 1, 1, 4, 4, 5, 5, 6, 6, 6, 6],
        "d": [1, 1, 1, 4, 4, 5, 5, 6, 6, 6, 7, 7],
        "e": [1, 1, 1, 4, 4, 4, 4],
        "f": [1, 1, 1, 2, 2, 2, 3, 3, 3, 3, 3],
    }
    voters = ("n1", *logs)
    cluster = ScriptedCluster(
        leader, *(ScriptedServer(name, voters, log, term=7) for name, log in logs.items())
    )
    cluster.cut.add("d")
    cluster.pass_time(500_000)
    while cluster.leaders() != ["n1"]:
        cluster.elect("n1")
    cluster.cut.clear()
    leader.propose(b"last")
    cluster.pass_time(500_000)
    if cluster.leaders() == ["n1"]:
        for server in cluster.servers.values():
            assert terms_of(server) == terms_of(leader)
            assert server.core.commit_index == leader.core.last_index
    assert len({tuple(terms_of(server)) for server in cluster.servers.values()}) == 1


# §5.3, optimization: skipping a conflicting term at once


def test_a_refusal_names_the_conflicting_term_and_where_it_begins() -> None:
    server = ScriptedServer(log=[1, 1, 2, 2, 2])
    [reply] = server.receive("n2", append(4, 5, 3, []))
    assert reply == AppendReply(4, False, 5, 0, 2, 3)
    [reply] = server.receive("n2", append(4, 9, 3, []))
    assert reply == AppendReply(4, False, 9, 0, 0, 6)


def test_backing_up_takes_one_refusal_for_each_conflicting_term() -> None:
    shared, stale = [1] * 10, [2] * 200 + [3] * 200
    leader = ScriptedServer("n1", log=shared + [4] * 400)
    follower = ScriptedServer("n2", log=shared + stale, term=4)
    cluster = ScriptedCluster(leader, follower, ScriptedServer("n3", log=shared))
    cluster.elect("n1")
    cluster.pass_time(100_000)
    assert terms_of(follower) == terms_of(leader)
    refusals = [
        message
        for name, _, message in cluster.delivered
        if name == "n2" and isinstance(message, AppendReply) and not message.success
    ]
    assert [refusal.conflict_term for refusal in refusals] == [3, 2]


def test_backing_up_a_short_log_takes_one_refusal() -> None:
    leader = ScriptedServer("n1", log=[1] * 500)
    leader.win()
    leader.receive("n2", AppendReply(2, False, 500, 0, 0, 4))
    message = [sent for to, sent in leader.sent if to == "n2"][-1]
    assert isinstance(message, AppendEntries)
    assert message.prev_index == 3
    assert len(message.entries) == 64


def test_a_follower_with_the_conflicting_term_is_met_at_the_leaders_last_entry_of_it() -> None:
    leader = ScriptedServer("n1", log=[1, 2, 2, 5, 5, 5])
    leader.win()
    leader.receive("n2", AppendReply(6, False, 6, 0, 2, 2))
    message = [sent for to, sent in leader.sent if to == "n2"][-1]
    assert isinstance(message, AppendEntries)
    assert (message.prev_index, message.prev_term) == (3, 2)


# §5.4.2 Committing entries from previous terms


def test_5_4_2_an_entry_of_an_earlier_term_is_not_committed_by_counting_copies() -> None:
    server = ScriptedServer(log=[1, 2])
    server.win()
    server.receive("n2", accepted(3, 2))
    server.receive("n3", accepted(3, 2))
    assert server.core.commit_index == 0
    server.receive("n2", accepted(3, 3))
    assert server.core.commit_index == 3


def test_5_4_2_figure_8_an_uncounted_entry_may_still_be_replaced() -> None:
    # S1 spreads its entry of term 2 to S2 and S3 in term 4, then fails; S5 wins and replaces it.
    voters = FIVE
    s1 = ScriptedServer("n1", voters, [1, 2], term=3)
    s1.win()
    s1.receive("n2", accepted(4, 2))
    s1.receive("n3", accepted(4, 2))
    assert s1.core.commit_index == 0
    s2 = ScriptedServer("n2", voters, [1, 2], term=4)
    s3 = ScriptedServer("n3", voters, [1, 2], term=4)
    s4 = ScriptedServer("n4", voters, [1])
    s5 = ScriptedServer("n5", voters, [1, 3], term=4)
    cluster = ScriptedCluster(s1, s2, s3, s4, s5)
    cluster.cut.add("n1")
    s1.sent.clear()
    cluster.elect("n5")
    assert terms_of(s2) == terms_of(s3) == [1, 3, 5]


def test_5_4_2_the_planted_defect_commits_it() -> None:
    server = ScriptedServer(log=[1, 2], bugs=frozenset(["commit-old-term"]))
    server.win()
    server.receive("n2", accepted(3, 2))
    assert server.core.commit_index == 2


# Invariants


def test_dropping_a_committed_entry_breaks_an_invariant() -> None:
    server = ScriptedServer()
    server.receive("n2", append(1, 0, 0, [1, 1], commit=2))
    with pytest.raises(AssertionError, match="committed-truncated"):
        server.receive("n3", append(2, 1, 1, [2]))


def test_a_leader_that_contradicts_a_committed_entry_breaks_an_invariant() -> None:
    server = ScriptedServer()
    server.receive("n2", append(1, 0, 0, [1, 1], commit=2))
    with pytest.raises(AssertionError, match="log-matching"):
        server.receive("n3", append(3, 2, 2, [3]))


def test_a_term_behind_the_log_is_refused_at_the_start() -> None:
    with pytest.raises(AssertionError, match="term-behind-log"):
        ScriptedServer(log=[1, 4], term=3)


# A log that does not start at 1


def test_a_log_that_starts_late_replicates_and_commits() -> None:
    servers = [ScriptedServer(name, log=[3, 3], start_index=11, previous_term=2) for name in THREE]
    cluster = ScriptedCluster(*servers)
    leader = cluster.elect("n1")
    leader.propose(b"x")
    cluster.pass_time(200_000)
    for server in servers:
        assert [entry.index for entry in server.applied] == [11, 12, 13, 14]


def test_an_append_that_begins_before_a_late_log_is_taken_from_where_the_log_begins() -> None:
    server = ScriptedServer(start_index=11, previous_term=2)
    [reply] = server.receive("n2", append(3, 8, 2, [2, 2, 3, 3], commit=12))
    assert reply == accepted(3, 12)
    assert [entry.index for entry in server.applied] == [11, 12]


def test_apply_effects_of_a_restarted_server_begin_at_the_start_of_its_log() -> None:
    server = ScriptedServer(log=[1, 1, 1])
    effects = server.core.step(server.now_us, _receive(append(2, 3, 1, [], commit=3)))
    [apply] = [effect for effect in effects if isinstance(effect, Apply)]
    assert [entry.index for entry in apply.entries] == [1, 2, 3]


def _receive(message: AppendEntries) -> Receive:
    return Receive("n2", message)


# A follower that has lost what it acknowledged


def test_a_late_refusal_of_what_was_acknowledged_since_proves_nothing() -> None:
    leader = ScriptedServer(log=[1] * 9)
    leader.win()
    leader.receive("n2", AppendReply(2, True, 10, 0))
    leader.sent.clear()
    for _ in range(3):
        leader.receive("n2", AppendReply(2, False, 9, 0, 0, 4))
    assert leader.outcomes_of(MemberRegressed) == []
    [question] = leader.take_sent(AppendEntries, "n2")
    leader.receive("n2", AppendReply(2, True, question.prev_index, question.round))
    assert leader.core.match_index_of("n2") == 10


def test_a_follower_that_lost_what_it_acknowledged_is_found_out_and_repaired() -> None:
    cluster = ScriptedCluster(*(ScriptedServer(name, log=[1] * 5) for name in THREE))
    leader = cluster.elect("n1")
    leader.propose(b"x")
    cluster.pass_time(200_000)
    # An older copy of its own disk, with the same identity.
    old = cluster.servers["n2"] = ScriptedServer("n2", log=[1] * 3)
    old.now_us = leader.now_us
    cluster.pass_time(500_000)
    assert leader.outcomes_of(MemberRegressed) == [MemberRegressed("n2", 7)]
    assert terms_of(old) == terms_of(leader)
    leader.propose(b"y")
    cluster.pass_time(200_000)
    assert leader.core.match_index_of("n2") == leader.core.last_index
