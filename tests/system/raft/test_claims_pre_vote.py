"""The Raft thesis: pre-vote (§9.6), disruptive servers (§4.2.3), check-quorum (§6.2)."""

from __future__ import annotations

import pytest

from atleastonce.system.raft.core import LeadershipChanged, Role, Tick
from atleastonce.system.raft.messages import (
    AppendEntries,
    AppendReply,
    HardState,
    RequestVote,
    VoteReply,
)
from atleastonce.verifier.simulation.scripted import (
    FIVE,
    THREE,
    ScriptedCluster,
    ScriptedServer,
)


def heartbeat(term: int) -> AppendEntries:
    return AppendEntries(term, 0, 0, 0, 0, ())


def vote_request(
    term: int, last_index: int = 0, last_term: int = 0, pre_vote: bool = False
) -> RequestVote:
    return RequestVote(term, last_index, last_term, pre_vote, False)


# Thesis §9.6 Pre-vote


def test_9_6_a_pre_vote_changes_no_term_on_either_side() -> None:
    server = ScriptedServer(term=4)
    server.tick()
    assert (server.core.role, server.core.term) == (Role.PRE_CANDIDATE, 4)
    assert server.take_sent(RequestVote) == [RequestVote(5, 0, 0, True, False)] * 2
    voter = ScriptedServer("n2", term=4)
    assert voter.receive("n1", vote_request(5, pre_vote=True)) == [VoteReply(5, True, True)]
    assert (voter.core.term, voter.hard_state) == (4, HardState(4, None))


def test_9_6_a_server_campaigns_only_after_a_majority_would_vote_for_it() -> None:
    server = ScriptedServer(voters=FIVE)
    server.tick()
    server.receive("n2", VoteReply(1, True, True))
    server.receive("n2", VoteReply(1, True, True))
    server.receive("n3", VoteReply(0, False, True))
    assert (server.core.role, server.core.term) == (Role.PRE_CANDIDATE, 0)
    server.receive("n4", VoteReply(1, True, True))
    assert (server.core.role, server.core.term) == (Role.CANDIDATE, 1)


def test_9_6_a_pre_vote_does_not_count_as_a_vote_nor_a_vote_as_a_pre_vote() -> None:
    server = ScriptedServer()
    server.tick()
    server.receive("n2", VoteReply(1, True, False))
    assert server.core.role is Role.FOLLOWER
    server = ScriptedServer()
    server.campaign()
    server.receive("n3", VoteReply(1, True, True))
    assert server.core.role is Role.CANDIDATE


def test_9_6_a_partitioned_server_does_not_raise_its_term() -> None:
    server = ScriptedServer(term=2)
    for _ in range(20):
        server.tick()
    assert (server.core.role, server.core.term) == (Role.PRE_CANDIDATE, 2)


def test_9_6_a_server_that_comes_back_does_not_disturb_the_leader() -> None:
    cluster = ScriptedCluster(*(ScriptedServer(name) for name in THREE))
    cluster.elect("n1")
    cluster.cut.add("n3")
    cluster.pass_time(3_000_000)
    assert cluster.servers["n3"].core.role is Role.PRE_CANDIDATE
    cluster.cut.clear()
    cluster.pass_time(1_000_000)
    assert cluster.leaders() == ["n1"]
    assert {server.core.term for server in cluster.servers.values()} == {1}
    assert cluster.servers["n3"].core.leader == "n1"


def test_9_6_a_pre_candidate_of_an_old_term_learns_the_current_one() -> None:
    # Otherwise a long log in an old term and a short one in a new term block each other.
    long_log = ScriptedServer("n1", log=[1, 1, 1])
    short_log = ScriptedServer("n2", log=[1], term=8)
    cluster = ScriptedCluster(long_log, short_log, ScriptedServer("n3"))
    cluster.cut.add("n3")
    cluster.pass_time(3_000_000)
    assert cluster.leaders() == ["n1"]
    assert long_log.core.term > 8


def test_9_6_a_leader_is_freed_of_a_follower_stuck_in_a_higher_term() -> None:
    cluster = ScriptedCluster(
        ScriptedServer("n1"), ScriptedServer("n2"), ScriptedServer("n3", term=5)
    )
    cluster.cut.add("n3")
    cluster.elect("n1")
    cluster.cut.clear()
    cluster.pass_time(3_000_000)
    assert len(cluster.leaders()) == 1
    terms = {server.core.term for server in cluster.servers.values()}
    assert len(terms) == 1
    assert min(terms) > 5


# Thesis §4.2.3 Disruptive servers, and §6.2 check-quorum


@pytest.mark.parametrize("pre_vote", [False, True])
def test_4_2_3_a_server_that_has_just_heard_a_leader_ignores_candidates(pre_vote: bool) -> None:
    server = ScriptedServer()
    server.receive("n2", heartbeat(1))
    server.now_us += 399_000
    assert server.receive("n3", vote_request(5, 9, 1, pre_vote)) == []
    assert (server.core.term, server.core.leader) == (1, "n2")
    server.now_us += 1_000
    [reply] = server.receive("n3", vote_request(5, 9, 1, pre_vote))
    assert isinstance(reply, VoteReply)
    assert reply.granted


def test_4_2_3_a_leader_ignores_candidates_while_it_leads() -> None:
    server = ScriptedServer()
    server.win()
    assert server.receive("n3", vote_request(5, 9, 1)) == []
    assert server.core.role is Role.LEADER


def test_4_2_3_an_election_that_the_leader_asked_for_is_not_disruptive() -> None:
    server = ScriptedServer()
    server.receive("n2", heartbeat(1))
    reply = server.receive("n3", RequestVote(2, 0, 0, False, True))
    assert reply == [VoteReply(2, True, False)]


def test_without_check_quorum_a_recent_leader_is_not_protected() -> None:
    server = ScriptedServer(check_quorum=False)
    server.receive("n2", heartbeat(1))
    assert server.receive("n3", vote_request(2)) == [VoteReply(2, True, False)]


def test_6_2_a_leader_without_word_from_a_quorum_steps_down() -> None:
    server = ScriptedServer()
    server.win()
    won_us = server.now_us
    while server.core.role is Role.LEADER:
        server.tick()
    assert 800_000 < server.now_us - won_us <= 900_000
    assert (server.core.role, server.core.term, server.core.leader) == (Role.FOLLOWER, 1, None)
    change = server.outcomes_of(LeadershipChanged)[-1]
    assert change == LeadershipChanged(Role.FOLLOWER, 1, None)


def test_6_2_a_leader_that_hears_a_quorum_stays() -> None:
    server = ScriptedServer(voters=FIVE)
    server.win()
    for _ in range(100):
        server.tick()
        server.receive("n2", AppendReply(1, True, 0, 0))
        server.receive("n3", AppendReply(1, False, 0, 0))
        assert server.core.quorum_contact_us == server.now_us
    assert server.core.role is Role.LEADER


def test_6_2_a_minority_is_not_a_quorum_for_staying_leader() -> None:
    server = ScriptedServer(voters=FIVE)
    server.win()
    for _ in range(10):
        server.tick()
        server.receive("n2", AppendReply(1, True, 0, 0))
    assert server.core.role is not Role.LEADER


def test_6_2_a_leader_that_was_paused_steps_down_at_its_first_tick() -> None:
    server = ScriptedServer()
    server.win()
    server.now_us += 5_000_000
    server.step(Tick())
    assert server.core.role is Role.FOLLOWER


def test_6_2_a_deaf_leader_is_replaced_although_its_heartbeats_arrive() -> None:
    cluster = ScriptedCluster(
        ScriptedServer("n1"), ScriptedServer("n2"), ScriptedServer("n3", entropy=max)
    )
    deaf = cluster.elect("n1")
    cluster.deaf.add("n1")
    cluster.pass_time(3_000_000)
    assert deaf.core.role is not Role.LEADER
    assert len(cluster.leaders()) == 1


def test_without_check_quorum_a_lonely_leader_stays() -> None:
    server = ScriptedServer(check_quorum=False)
    server.win()
    for _ in range(50):
        server.tick()
    assert server.core.role is Role.LEADER
