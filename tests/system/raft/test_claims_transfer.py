"""The Raft thesis, claim by claim: leadership transfer (§3.10)."""

from __future__ import annotations

import pytest

from atleastonce.system.raft.core import Refused, Role, TransferDone, TransferLeadership
from atleastonce.system.raft.messages import (
    AppendEntries,
    AppendReply,
    RequestVote,
    TimeoutNow,
)
from atleastonce.verifier.simulation.scripted import FIVE, THREE, ScriptedCluster, ScriptedServer


def leader(*match: int, voters: tuple[str, ...] = THREE) -> ScriptedServer:
    server = ScriptedServer(voters=voters)
    server.win()
    for peer, index in zip(voters[1:], match, strict=True):
        server.receive(peer, AppendReply(1, True, index, 0))
    server.sent.clear()
    return server


def test_3_10_the_leader_refuses_proposals_while_it_hands_over() -> None:
    server = leader(1, 1)
    server.step(TransferLeadership("n2"))
    assert server.core.is_transferring
    server.propose(b"x")
    assert server.outcomes_of(Refused) == [Refused(1, "n1")]
    assert server.core.last_index == 1


def test_3_10_the_leader_brings_the_target_up_to_date_before_it_tells_it() -> None:
    server = leader(1, 1)
    server.propose(b"x")
    server.step(TransferLeadership("n2"))
    assert server.take_sent(TimeoutNow) == []
    server.receive("n3", AppendReply(1, True, 2, 0))
    assert server.take_sent(TimeoutNow) == []
    server.receive("n2", AppendReply(1, True, 2, 0))
    assert server.take_sent(TimeoutNow, "n2") == [TimeoutNow(1)]


def test_3_10_the_target_starts_an_election_at_once_without_pre_vote() -> None:
    server = ScriptedServer("n2")
    server.receive("n1", AppendEntries(1, 0, 0, 0, 0, ()))
    server.sent.clear()
    server.receive("n1", TimeoutNow(1))
    assert (server.core.role, server.core.term) == (Role.CANDIDATE, 2)
    assert server.take_sent(RequestVote) == [RequestVote(2, 0, 0, False, True)] * 2


def test_3_10_only_the_known_leader_may_ask_for_it() -> None:
    server = ScriptedServer("n2")
    server.receive("n1", AppendEntries(1, 0, 0, 0, 0, ()))
    server.receive("n3", TimeoutNow(1))
    assert server.core.role is Role.FOLLOWER


def test_3_10_a_transfer_takes_two_round_trips_and_no_timeout() -> None:
    cluster = ScriptedCluster(*(ScriptedServer(name, FIVE) for name in FIVE))
    old = cluster.elect("n1")
    cluster.pass_time(50_000)
    before_us = old.now_us
    old.step(TransferLeadership("n4"))
    cluster.deliver()
    assert cluster.leaders() == ["n4"]
    assert old.now_us == before_us
    assert old.outcomes_of(TransferDone) == [TransferDone(True)]
    assert not old.core.is_transferring
    assert old.core.leader == "n4"


def test_3_10_a_transfer_that_takes_an_election_timeout_is_given_up() -> None:
    server = leader(1, 1)
    asked_us = server.now_us
    server.step(TransferLeadership("n2"))
    while not server.outcomes_of(TransferDone):
        server.tick()
        server.receive("n3", AppendReply(1, True, 1, 0))
    assert server.outcomes_of(TransferDone) == [TransferDone(False)]
    assert server.now_us - asked_us == 800_000
    assert server.core.role is Role.LEADER
    server.propose(b"x")
    assert server.core.last_index == 2


def test_a_lost_timeout_now_is_sent_again_with_the_next_heartbeat() -> None:
    server = leader(1, 1)
    server.step(TransferLeadership("n2"))
    assert len(server.take_sent(TimeoutNow, "n2")) == 1
    server.receive("n2", AppendReply(1, True, 1, 0))
    assert server.take_sent(TimeoutNow, "n2") == []
    server.tick()
    assert len(server.take_sent(TimeoutNow, "n2")) == 1


def test_without_a_target_the_most_caught_up_voter_takes_over() -> None:
    server = ScriptedServer(voters=FIVE)
    server.win()
    for peer in FIVE[1:]:
        server.receive(peer, AppendReply(1, True, 1, 0))
    server.propose(b"x", b"y")
    server.receive("n3", AppendReply(1, True, 3, 0))
    server.receive("n4", AppendReply(1, True, 2, 0))
    server.sent.clear()
    server.step(TransferLeadership(None))
    assert server.take_sent(TimeoutNow, "n3") == [TimeoutNow(1)]


def test_without_a_target_a_silent_voter_is_not_chosen() -> None:
    server = leader(1, 1)
    for _ in range(9):
        server.tick()
        server.receive("n3", AppendReply(1, True, 1, 0))
    server.sent.clear()
    server.step(TransferLeadership(None))
    assert server.take_sent(TimeoutNow, "n3") == [TimeoutNow(1)]


@pytest.mark.parametrize("target", ["n1", "n9", None])
def test_a_transfer_to_nobody_suitable_is_refused_at_once(target: str | None) -> None:
    voters = ("n1",) if target is None else THREE
    server = ScriptedServer(voters=voters)
    server.win()
    server.step(TransferLeadership(target))
    assert server.outcomes_of(TransferDone) == [TransferDone(False)]
    assert not server.core.is_transferring


def test_a_server_that_does_not_lead_refuses_a_transfer() -> None:
    server = ScriptedServer()
    server.step(TransferLeadership("n2"))
    assert server.outcomes_of(TransferDone) == [TransferDone(False)]


def test_a_second_transfer_is_refused_while_one_is_under_way() -> None:
    server = leader(1, 1)
    server.step(TransferLeadership("n2"))
    server.step(TransferLeadership("n3"))
    assert server.outcomes_of(TransferDone) == [TransferDone(False)]
    assert server.core.is_transferring


def test_a_leader_that_is_elected_again_has_not_handed_over() -> None:
    server = leader(1, 1)
    server.step(TransferLeadership("n2"))
    server.receive("n3", AppendReply(2, False, 0, 0))
    server.win()
    assert server.outcomes_of(TransferDone) == [TransferDone(False)]
    assert not server.core.is_transferring


def test_a_deposed_leader_waits_for_a_known_successor_before_it_says_done() -> None:
    server = leader(1, 1)
    server.step(TransferLeadership("n2"))
    server.receive("n3", AppendReply(2, False, 0, 0))
    assert server.core.role is Role.FOLLOWER
    assert server.outcomes_of(TransferDone) == []
    server.receive("n2", AppendEntries(2, 1, 1, 0, 0, ()))
    assert server.outcomes_of(TransferDone) == [TransferDone(True)]
