"""What must be durable before what is said (Raft figure 2: "updated before responding")."""

from __future__ import annotations

import pytest

from atleastonce.system.raft.core import Apply, Persist, Persisted, Receive, Role, Send
from atleastonce.system.raft.messages import (
    AppendEntries,
    AppendReply,
    HardState,
    RequestVote,
    VoteReply,
)
from atleastonce.verifier.simulation.scripted import ScriptedServer, entries_of


def slow() -> ScriptedServer:
    server = ScriptedServer()
    server.syncs_at_once = False
    return server


def append(term: int, terms: list[int], commit: int = 0, prev: int = 0) -> AppendEntries:
    return AppendEntries(term, prev, 1 if prev else 0, commit, 0, entries_of(terms, prev + 1))


def test_a_vote_leaves_only_once_it_is_durable() -> None:
    server = slow()
    assert server.receive("n2", RequestVote(1, 0, 0, False, False)) == []
    assert server.writes[-1].hard_state == HardState(1, "n2")
    server.sync()
    assert server.take_sent(VoteReply, "n2") == [VoteReply(1, True, False)]


def test_a_refusal_that_tells_a_new_term_leaves_only_once_the_term_is_durable() -> None:
    server = slow()
    server.receive("n2", RequestVote(4, 0, 0, False, False))
    assert server.receive("n3", RequestVote(4, 0, 0, False, False)) == []
    server.sync()
    assert server.take_sent(VoteReply, "n3") == [VoteReply(4, False, False)]


def test_a_candidate_asks_for_votes_and_counts_its_own_only_once_that_is_durable() -> None:
    server = slow()
    server.tick()
    server.receive("n2", VoteReply(1, True, True))
    assert server.core.term == 1
    assert [sent for sent in server.take_sent(RequestVote) if not sent.pre_vote] == []
    server.receive("n2", VoteReply(1, True, False))
    assert server.core.leader is None
    server.sync()
    assert len(server.take_sent(RequestVote)) == 2
    assert server.core.role is Role.LEADER


def test_an_append_is_answered_only_once_its_entries_are_durable() -> None:
    server = slow()
    server.receive("n2", append(1, []))
    server.sync()
    server.sent.clear()
    assert server.receive("n2", append(1, [1, 1])) == []
    server.sync()
    assert server.take_sent(AppendReply) == [AppendReply(1, True, 2, 0)]


def test_an_append_of_entries_still_being_written_is_answered_when_they_are_durable() -> None:
    server = slow()
    server.receive("n2", append(1, [1, 1]))
    server.sent.clear()
    assert server.receive("n2", append(1, [1, 1])) == []
    server.sync()
    assert server.take_sent(AppendReply) == [AppendReply(1, True, 2, 0)] * 2


def test_a_heartbeat_is_answered_during_a_slow_sync_with_what_is_durable() -> None:
    server = slow()
    server.receive("n2", append(1, [1, 1]))
    server.sync()
    server.sent.clear()
    server.receive("n2", append(1, [1, 1], prev=2))
    [reply] = server.receive("n2", AppendEntries(1, 4, 1, 0, 3, ()))
    assert reply == AppendReply(1, True, 2, 3)


def test_even_a_heartbeat_waits_for_the_term_it_began() -> None:
    server = slow()
    assert server.receive("n2", append(6, [])) == []
    server.sync()
    assert server.take_sent(AppendReply) == [AppendReply(6, True, 0, 0)]


def test_a_leader_counts_its_own_copy_only_once_it_is_durable() -> None:
    server = ScriptedServer()
    server.win()
    server.receive("n2", AppendReply(1, True, 1, 0))
    assert server.core.commit_index == 1
    server.syncs_at_once = False
    server.propose(b"x")
    assert server.core.durable_index == 1
    assert server.core.commit_index == 1
    server.receive("n2", AppendReply(1, True, 2, 0))
    assert server.core.commit_index == 1
    server.sync()
    assert server.core.commit_index == 2


def test_followers_may_commit_what_the_leader_is_still_writing_but_it_applies_later() -> None:
    # Thesis §10.2.1: the leader writes in parallel with its followers.
    server = ScriptedServer()
    server.win()
    server.receive("n2", AppendReply(1, True, 1, 0))
    server.syncs_at_once = False
    server.propose(b"x")
    assert len(server.take_sent(AppendEntries)) >= 1
    server.receive("n2", AppendReply(1, True, 2, 0))
    server.receive("n3", AppendReply(1, True, 2, 0))
    assert server.core.commit_index == 2
    assert [entry.index for entry in server.applied] == [1]
    server.sync()
    assert [entry.index for entry in server.applied] == [1, 2]


def test_a_follower_applies_only_what_is_durable_on_its_own_disk() -> None:
    server = slow()
    server.receive("n2", append(1, [1, 1], commit=2))
    assert server.core.commit_index == 2
    assert server.applied == []
    server.sync()
    assert [entry.index for entry in server.applied] == [1, 2]


def test_a_write_that_was_truncated_meanwhile_does_not_count_for_what_replaced_it() -> None:
    # The same index, written twice with different terms: the first sync proves only the first.
    server = slow()
    server.receive("n2", append(1, [1]))
    server.sync()
    server.receive("n2", append(1, [1, 1], prev=1))
    server.receive("n3", append(2, [2], prev=1))
    assert server.core.last_index == 2
    server.sync(1)
    assert server.core.durable_index == 1
    server.sync()
    assert server.core.durable_index == 2
    assert server.take_sent(AppendReply)[-1] == AppendReply(2, True, 2, 0)


def test_an_answer_held_back_for_the_disk_dies_with_its_term() -> None:
    server = slow()
    server.receive("n2", append(1, [1]))
    server.receive("n3", RequestVote(2, 5, 1, False, True))
    server.sync()
    assert server.take_sent(AppendReply) == []


def test_confirmations_may_skip_to_the_latest_write() -> None:
    server = slow()
    for prev in range(4):
        server.receive("n2", append(1, [1], prev=prev))
    assert [write.sequence for write in server.writes] == [1, 2, 3, 4]
    server.step(Persisted(3))
    assert server.core.durable_index == 3
    server.step(Persisted(2))
    assert server.core.durable_index == 3
    server.step(Persisted(4))
    assert server.core.durable_index == 4


def test_a_confirmation_of_a_write_that_was_never_issued_breaks_an_invariant() -> None:
    server = slow()
    with pytest.raises(AssertionError, match="write-order"):
        server.step(Persisted(1))


def test_a_step_puts_its_one_write_first() -> None:
    server = ScriptedServer(log=[1, 1])
    message = AppendEntries(3, 1, 1, 1, 0, entries_of([3, 3], 2))
    effects = server.core.step(server.now_us, Receive("n2", message))
    assert [effect for effect in effects if isinstance(effect, Persist)] == [
        Persist(1, HardState(3, None), 2, entries_of([3, 3], 2))
    ]
    assert isinstance(effects[0], Persist)
    assert not any(isinstance(effect, Send) for effect in effects)
    assert any(isinstance(effect, Apply) for effect in effects)


def test_a_restart_from_its_own_writes_keeps_term_vote_and_log() -> None:
    server = slow()
    server.receive("n2", append(2, [1, 2]))
    server.receive("n3", RequestVote(5, 9, 2, False, True))
    server.sync()
    again = ScriptedServer(
        log=[1, 2], term=server.hard_state.term, voted_for=server.hard_state.voted_for
    )
    assert again.receive("n2", RequestVote(5, 9, 2, False, False)) == [VoteReply(5, False, False)]
    assert again.receive("n3", RequestVote(5, 9, 2, False, False)) == [VoteReply(5, True, False)]


def test_the_planted_defect_answers_a_vote_before_it_is_durable_and_never_stores_it() -> None:
    server = ScriptedServer(bugs=frozenset(["vote-not-persisted"]))
    server.syncs_at_once = False
    assert server.receive("n2", RequestVote(1, 0, 0, False, False)) == [VoteReply(1, True, False)]
    assert server.writes[-1].hard_state == HardState(1, None)
