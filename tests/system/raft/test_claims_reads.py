"""The Raft thesis, claim by claim: reads without log entries (§6.4, ReadIndex)."""

from __future__ import annotations

from atleastonce.system.raft.core import Read, ReadFailed, ReadReady, Role
from atleastonce.system.raft.messages import AppendEntries, AppendReply, VoteReply
from atleastonce.verifier.simulation.scripted import FIVE, ScriptedServer


def accepted(match_index: int, read_round: int) -> AppendReply:
    return AppendReply(1, True, match_index, read_round)


def leader_with_commit(voters: tuple[str, ...] = ("n1", "n2", "n3")) -> ScriptedServer:
    server = ScriptedServer(voters=voters)
    server.win()
    for peer in voters[1:]:
        server.receive(peer, accepted(1, 0))
    assert server.core.commit_index == 1
    server.sent.clear()
    return server


def test_6_4_a_new_leader_serves_no_read_before_it_has_committed_in_its_own_term() -> None:
    server = ScriptedServer(log=[1, 1])
    server.win()
    server.step(Read(7))
    server.receive("n2", AppendReply(2, True, 2, 0))
    server.tick()
    server.receive("n2", AppendReply(2, True, 2, 0))
    assert server.outcomes_of(ReadReady) == []
    server.receive("n2", AppendReply(2, True, 3, 0))
    [request] = server.take_sent(AppendEntries, "n2")[-1:]
    assert request.round == 1
    server.receive("n2", AppendReply(2, True, 3, 1))
    assert server.outcomes_of(ReadReady) == [ReadReady(7, 3)]


def test_6_4_a_leader_confirms_its_leadership_with_a_majority_before_it_serves() -> None:
    server = leader_with_commit(FIVE)
    server.step(Read(1))
    sent = server.take_sent(AppendEntries)
    assert [message.round for message in sent] == [1, 1, 1, 1]
    server.receive("n2", accepted(1, 1))
    assert server.outcomes_of(ReadReady) == []
    server.receive("n3", accepted(1, 1))
    assert server.outcomes_of(ReadReady) == [ReadReady(1, 1)]


def test_6_4_an_answer_to_a_message_from_before_the_read_confirms_nothing() -> None:
    server = leader_with_commit()
    server.tick()
    server.step(Read(1))
    server.receive("n2", accepted(1, 0))
    server.receive("n3", accepted(1, 0))
    assert server.outcomes_of(ReadReady) == []


def test_6_4_an_answer_to_an_earlier_term_of_the_same_leader_confirms_nothing() -> None:
    # Rounds begin anew with each term: the seventh of term 3 says nothing of the seventh of term 4.
    follower = ScriptedServer("n2", term=4)
    [refusal] = follower.receive("n1", AppendEntries(3, 0, 0, 0, 7, ()))
    assert isinstance(refusal, AppendReply)
    assert (refusal.term, refusal.success, refusal.round) == (4, False, 0)


def test_6_4_a_refused_append_confirms_leadership_as_well() -> None:
    server = leader_with_commit()
    server.step(Read(1))
    server.receive("n2", AppendReply(1, False, 1, 1, 0, 1))
    assert server.outcomes_of(ReadReady) == [ReadReady(1, 1)]


def test_6_4_a_read_is_served_at_the_commit_index_of_when_it_was_asked() -> None:
    server = leader_with_commit()
    server.step(Read(1))
    server.propose(b"later")
    server.receive("n2", accepted(2, 1))
    assert server.core.commit_index == 2
    assert server.outcomes_of(ReadReady) == [ReadReady(1, 1)]


def test_6_4_reads_asked_while_a_round_is_on_its_way_share_the_next_one() -> None:
    server = leader_with_commit()
    server.step(Read(1))
    for read in range(2, 50):
        server.step(Read(read))
    assert len(server.take_sent(AppendEntries)) == 2
    server.receive("n2", accepted(1, 1))
    assert server.outcomes_of(ReadReady) == [ReadReady(1, 1)]
    assert [message.round for message in server.take_sent(AppendEntries)] == [2, 2]
    server.receive("n3", accepted(1, 2))
    assert [ready.read for ready in server.outcomes_of(ReadReady)] == list(range(1, 50))


def test_6_4_heartbeats_repeat_a_round_whose_messages_were_lost() -> None:
    server = leader_with_commit()
    server.step(Read(1))
    server.sent.clear()
    server.tick()
    [message] = server.take_sent(AppendEntries, "n2")
    server.receive("n2", accepted(1, message.round))
    assert server.outcomes_of(ReadReady) == [ReadReady(1, 1)]


def test_6_4_a_heartbeat_starts_the_next_round_even_when_the_last_was_not_answered() -> None:
    server = leader_with_commit()
    server.step(Read(1))
    server.step(Read(2))
    server.tick()
    server.receive("n2", accepted(1, 2))
    assert server.outcomes_of(ReadReady) == [ReadReady(1, 1), ReadReady(2, 1)]


def test_6_4_reads_cost_no_log_entries_and_no_writes() -> None:
    server = leader_with_commit()
    last_index, issued = server.core.last_index, len(server.writes)
    server.syncs_at_once = False
    server.step(Read(1))
    server.receive("n2", accepted(1, 1))
    assert (server.core.last_index, len(server.writes)) == (last_index, issued)


def test_a_read_fails_at_a_server_that_does_not_lead() -> None:
    server = ScriptedServer()
    server.step(Read(5))
    assert server.outcomes_of(ReadFailed) == [ReadFailed(5)]


def test_reads_that_wait_fail_when_the_leader_steps_down() -> None:
    server = leader_with_commit()
    server.step(Read(1))
    server.step(Read(2))
    server.receive("n2", AppendReply(4, False, 0, 0))
    assert server.core.role is Role.FOLLOWER
    assert server.outcomes_of(ReadFailed) == [ReadFailed(1), ReadFailed(2)]
    assert server.outcomes_of(ReadReady) == []


def test_a_round_of_an_earlier_leadership_confirms_nothing_later() -> None:
    server = leader_with_commit()
    server.step(Read(1))
    server.receive("n2", VoteReply(4, False, False))
    server.win()
    server.receive("n2", AppendReply(5, True, 2, 0))
    server.step(Read(2))
    server.receive("n2", AppendReply(1, True, 1, 1))
    assert server.outcomes_of(ReadReady) == []
    server.receive("n2", AppendReply(5, True, 2, 1))
    assert server.outcomes_of(ReadReady) == [ReadReady(2, 2)]


def test_a_single_voter_serves_reads_at_once() -> None:
    server = ScriptedServer(voters=("n1",))
    server.win()
    server.step(Read(1))
    assert server.outcomes_of(ReadReady) == [ReadReady(1, 1)]
