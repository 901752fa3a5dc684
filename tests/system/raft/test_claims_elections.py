"""The Raft paper, claim by claim: terms and elections.

Each test names the section it follows ("§" the paper of 2014, "thesis" Ongaro's of 2014) and
paraphrases the claim.
"""

from __future__ import annotations

import pytest

from atleastonce.system.raft.core import RaftConfig, Role, Tick
from atleastonce.system.raft.messages import (
    AppendEntries,
    AppendReply,
    EntryKind,
    HardState,
    Message,
    RequestVote,
    TimeoutNow,
    VoteReply,
)
from atleastonce.verifier.simulation.scripted import (
    FIVE,
    THREE,
    ScriptedServer,
)


def heartbeat(term: int) -> AppendEntries:
    return AppendEntries(term, 0, 0, 0, 0, ())


def vote_request(
    term: int, last_index: int = 0, last_term: int = 0, pre_vote: bool = False
) -> RequestVote:
    return RequestVote(term, last_index, last_term, pre_vote, False)


# §5.1 Raft basics


@pytest.mark.parametrize(
    "message",
    [
        heartbeat(7),
        vote_request(7),
        VoteReply(7, False, False),
        VoteReply(7, False, True),
        AppendReply(7, False, 0, 0),
    ],
)
def test_5_1_a_server_that_sees_a_higher_term_adopts_it(message: Message) -> None:
    server = ScriptedServer(term=3)
    server.receive("n2", message)
    assert server.core.term == 7
    assert server.hard_state.term == 7


@pytest.mark.parametrize(
    "message", [heartbeat(9), VoteReply(9, False, False), AppendReply(9, False, 0, 0)]
)
@pytest.mark.parametrize("role", [Role.CANDIDATE, Role.LEADER])
def test_5_1_a_candidate_or_leader_whose_term_is_old_becomes_a_follower(
    role: Role, message: Message
) -> None:
    server = ScriptedServer()
    server.campaign() if role is Role.CANDIDATE else server.win()
    assert server.core.role is role
    server.receive("n2", message)
    assert server.core.role is Role.FOLLOWER
    assert server.core.term == 9


def test_5_1_a_request_of_an_old_term_is_refused_with_the_current_term() -> None:
    server = ScriptedServer(term=5)
    assert server.receive("n2", vote_request(4, 9, 4)) == [VoteReply(5, False, False)]
    assert server.receive("n2", vote_request(4, 9, 4, pre_vote=True)) == [VoteReply(5, False, True)]
    [reply] = server.receive("n2", heartbeat(4))
    assert isinstance(reply, AppendReply)
    assert (reply.term, reply.success) == (5, False)
    assert server.core.leader is None


# §5.2 Leader election


def test_5_2_a_server_starts_as_a_follower_of_nobody() -> None:
    server = ScriptedServer(term=4, voted_for="n2")
    assert (server.core.role, server.core.term, server.core.leader) == (Role.FOLLOWER, 4, None)


def test_5_2_a_follower_stays_one_as_long_as_it_hears_its_leader() -> None:
    server = ScriptedServer()
    for _ in range(50):
        server.now_us += 300_000
        server.step(Tick())
        server.receive("n2", heartbeat(1))
    assert server.core.role is Role.FOLLOWER
    assert server.core.leader == "n2"
    assert server.take_sent(RequestVote) == []


def test_5_2_a_follower_without_word_from_a_leader_stands_for_election_in_the_next_term() -> None:
    server = ScriptedServer(log=[1, 3])
    server.campaign()
    assert server.core.role is Role.CANDIDATE
    assert server.core.term == 4
    assert server.hard_state == HardState(4, "n1")
    requests = [sent for sent in server.take_sent(RequestVote) if not sent.pre_vote]
    assert requests == [RequestVote(4, 2, 3, False, False)] * 2


def test_5_2_a_candidate_with_votes_of_a_majority_leads() -> None:
    server = ScriptedServer(voters=FIVE)
    server.campaign()
    server.receive("n2", VoteReply(1, True, False))
    assert server.core.leader is None
    server.receive("n3", VoteReply(1, True, False))
    assert server.core.role is Role.LEADER
    assert server.core.leader == "n1"


def test_5_2_a_vote_that_arrives_twice_counts_once() -> None:
    server = ScriptedServer(voters=FIVE)
    server.campaign()
    for _ in range(3):
        server.receive("n2", VoteReply(1, True, False))
    assert server.core.role is Role.CANDIDATE


def test_5_2_a_vote_of_an_earlier_term_does_not_count() -> None:
    server = ScriptedServer()
    server.campaign()
    server.campaign()
    assert server.core.term == 2
    server.receive("n2", VoteReply(1, True, False))
    assert server.core.role is Role.CANDIDATE


def test_5_2_a_refused_vote_does_not_count() -> None:
    server = ScriptedServer()
    server.campaign()
    server.receive("n2", VoteReply(1, False, False))
    server.receive("n3", VoteReply(1, False, False))
    assert server.core.role is Role.CANDIDATE


def test_5_2_a_server_votes_for_one_candidate_in_a_term_first_come_first_served() -> None:
    server = ScriptedServer()
    assert server.receive("n2", vote_request(1)) == [VoteReply(1, True, False)]
    assert server.receive("n3", vote_request(1)) == [VoteReply(1, False, False)]
    assert server.receive("n2", vote_request(1)) == [VoteReply(1, True, False)]
    assert server.receive("n3", vote_request(2)) == [VoteReply(2, True, False)]


def test_5_2_a_candidate_does_not_vote_for_another_in_its_term() -> None:
    server = ScriptedServer()
    server.campaign()
    assert server.receive("n2", vote_request(1, 5, 1)) == [VoteReply(1, False, False)]


def test_5_2_a_winner_sends_heartbeats_at_once_and_then_regularly() -> None:
    server = ScriptedServer()
    server.win()
    assert {to for to, sent in server.sent if isinstance(sent, AppendEntries)} == {"n2", "n3"}
    won_us = server.now_us
    server.sent.clear()
    server.tick()
    assert server.now_us - won_us == 100_000
    assert {to for to, sent in server.sent if isinstance(sent, AppendEntries)} == {"n2", "n3"}


def test_5_2_a_candidate_that_hears_a_leader_of_its_term_follows_it() -> None:
    server = ScriptedServer()
    server.campaign()
    server.receive("n3", heartbeat(1))
    assert (server.core.role, server.core.leader, server.core.term) == (Role.FOLLOWER, "n3", 1)


def test_5_2_a_candidate_goes_on_when_it_hears_a_leader_of_an_old_term() -> None:
    server = ScriptedServer(term=3)
    server.campaign()
    server.receive("n3", heartbeat(3))
    assert (server.core.role, server.core.term) == (Role.CANDIDATE, 4)


def test_5_2_a_split_vote_ends_in_a_new_election() -> None:
    server = ScriptedServer()
    server.campaign()
    server.receive("n2", VoteReply(1, False, False))
    server.campaign()
    assert (server.core.role, server.core.term) == (Role.CANDIDATE, 2)


def test_5_2_election_timeouts_are_drawn_anew_from_the_configured_interval() -> None:
    asked: list[tuple[int, int]] = []

    def entropy(low: int, high: int) -> int:
        asked.append((low, high))
        return low + 12_345 * len(asked)

    server = ScriptedServer(entropy=entropy)
    assert server.core.deadline_us == server.now_us + 400_000 + 12_345
    server.tick()
    assert server.core.deadline_us == server.now_us + 400_000 + 2 * 12_345
    assert asked == [(400_000, 800_000)] * 2


def test_5_2_granting_a_vote_restarts_the_election_timeout_but_refusing_does_not() -> None:
    server = ScriptedServer(log=[2])
    deadline_us = server.core.deadline_us
    server.now_us += 1000
    server.receive("n2", vote_request(3, 5, 1))
    assert server.core.deadline_us == deadline_us
    server.receive("n3", vote_request(3, 5, 2))
    assert server.core.deadline_us == server.now_us + 400_000


def test_5_2_two_leaders_of_one_term_break_an_invariant() -> None:
    server = ScriptedServer()
    server.win()
    with pytest.raises(AssertionError, match="one-leader"):
        server.receive("n2", heartbeat(1))


def test_a_cluster_of_one_elects_itself_at_once_and_commits_alone() -> None:
    server = ScriptedServer(voters=("n1",))
    assert server.core.deadline_us == server.now_us
    server.step(Tick())
    assert server.core.role is Role.LEADER
    server.propose(b"a", b"b")
    assert [entry.data for entry in server.applied] == [b"", b"a", b"b"]
    assert server.sent == []


# §5.4.1 Election restriction


@pytest.mark.parametrize(
    ("last_index", "last_term", "granted"),
    [
        (3, 2, True),  # Equal.
        (9, 2, True),  # Longer in the same term.
        (1, 3, True),  # Later term, though shorter.
        (2, 2, False),  # Shorter in the same term.
        (9, 1, False),  # Earlier term, though longer.
    ],
)
@pytest.mark.parametrize("pre_vote", [False, True])
def test_5_4_1_a_voter_denies_a_candidate_whose_log_is_behind_its_own(
    last_index: int, last_term: int, granted: bool, pre_vote: bool
) -> None:
    server = ScriptedServer(log=[1, 2, 2])
    [reply] = server.receive("n2", vote_request(5, last_index, last_term, pre_vote))
    assert isinstance(reply, VoteReply)
    assert reply.granted is granted


def test_5_4_1_a_denied_vote_leaves_the_vote_free_for_a_better_candidate() -> None:
    server = ScriptedServer(log=[1, 2])
    server.receive("n2", vote_request(3, 9, 1))
    assert server.receive("n3", vote_request(3, 2, 2)) == [VoteReply(3, True, False)]


# Others


def test_a_new_leader_of_any_term_appends_a_no_op_of_that_term() -> None:
    # §8: a leader commits a blank entry at the start of its term.
    server = ScriptedServer(log=[1, 1])
    server.win()
    entry = server.core.log.entry_at(3)
    assert (entry.term, entry.kind, entry.data) == (2, EntryKind.NOOP, b"")


def test_a_stale_timeout_now_starts_no_election() -> None:
    server = ScriptedServer(term=3)
    server.receive("n2", TimeoutNow(2))
    assert (server.core.role, server.core.term) == (Role.FOLLOWER, 3)


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"node_id": "n9"}, "node_id 'n9'"),
        ({"voters": ("n1", "n1")}, "names a server twice"),
        ({"election_ms_max": 100}, "election_ms_max 100"),
        ({"heartbeat_ms": 201}, "heartbeat_ms 201"),
    ],
)
def test_contradicting_settings_are_refused_by_name(
    settings: dict[str, str | int | tuple[str, ...]], text: str
) -> None:
    fields = {"node_id": "n1", "voters": THREE} | settings
    with pytest.raises(ValueError, match=text):
        RaftConfig(**fields)  # type: ignore[arg-type]
