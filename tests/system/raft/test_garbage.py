"""Messages that no correct server sends."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from atleastonce.system.raft.core import Role
from atleastonce.system.raft.messages import (
    AppendEntries,
    AppendReply,
    Entry,
    EntryKind,
    InstallSnapshot,
    Message,
    RequestVote,
    TimeoutNow,
    VoteReply,
)
from atleastonce.verifier.simulation.scripted import ScriptedServer, entries_of

wild = st.integers(-(2**70), 2**70) | st.integers(-3, 12)
wild_entries = st.lists(
    st.builds(Entry, wild, wild, st.just(EntryKind.COMMAND), st.just(b"")), max_size=3
).map(tuple)
wild_messages: st.SearchStrategy[Message] = st.one_of(
    st.builds(RequestVote, wild, wild, wild, st.booleans(), st.booleans()),
    st.builds(VoteReply, wild, st.booleans(), st.booleans()),
    st.builds(AppendReply, wild, st.booleans(), wild, wild, wild, wild),
    st.builds(InstallSnapshot, st.integers(-(2**70), -1), wild, wild, wild, st.just(b"")),
    st.builds(TimeoutNow, wild),
    # A well-formed claim to lead would be believed; that it contradicts another leader or committed
    # entries is a broken invariant and not garbage. So what leaders send is wrong in form here.
    st.builds(AppendEntries, wild, wild, wild, wild, wild, wild_entries).filter(
        lambda message: not _is_well_formed(message)
    ),
)


def _is_well_formed(message: AppendEntries) -> bool:
    terms = [message.prev_term, *(entry.term for entry in message.entries), message.term]
    indexes = [message.prev_index, *(entry.index for entry in message.entries)]
    return (
        terms == sorted(terms)
        and indexes == list(range(indexes[0], indexes[0] + len(indexes)))
        and min(*terms, *indexes, message.commit_index, message.round) >= 0
    )


def server_as(role: Role) -> ScriptedServer:
    server = ScriptedServer(log=[1, 1, 2])
    server.receive("n2", AppendEntries(2, 3, 2, 2, 0, ()))
    server.now_us += 1_000_000
    if role is Role.CANDIDATE:
        server.campaign()
    elif role is Role.LEADER:
        server.win()
    return server


@settings(max_examples=300, deadline=None)
@given(
    st.sampled_from([Role.FOLLOWER, Role.CANDIDATE, Role.LEADER]),
    st.lists(st.tuples(st.sampled_from(["n2", "n3"]), wild_messages), max_size=6),
)
def test_no_absurd_message_stops_a_server_or_moves_its_commits(
    role: Role, messages: list[tuple[str, Message]]
) -> None:
    server = server_as(role)
    term, committed = server.core.term, server.core.commit_index
    for sender, message in messages:
        server.receive(sender, message)
    server.tick()
    assert server.core.term >= term
    assert server.core.commit_index >= committed
    assert [entry.index for entry in server.applied[:2]] == [1, 2]


@pytest.mark.parametrize("sender", ["n1", "n9", ""])
@pytest.mark.parametrize(
    "message",
    [
        RequestVote(9, 9, 9, False, True),
        VoteReply(9, False, False),
        AppendEntries(9, 0, 0, 0, 0, entries_of([9])),
        AppendReply(9, False, 0, 0),
        InstallSnapshot(9, 9, 9, 0, b""),
        TimeoutNow(0),
    ],
)
def test_a_message_from_itself_or_from_no_voter_is_ignored(sender: str, message: Message) -> None:
    server = ScriptedServer()
    assert server.receive(sender, message) == []
    assert (server.core.term, server.core.role, server.sent) == (0, Role.FOLLOWER, [])


@pytest.mark.parametrize(
    "message",
    [
        AppendEntries(3, -1, 0, 0, 0, ()),
        AppendEntries(3, 0, 2, 0, 0, ()),
        AppendEntries(3, 4, 0, 0, 0, ()),
        AppendEntries(3, 0, 0, -5, 0, ()),
        AppendEntries(3, 0, 0, 0, 0, entries_of([1], 2)),
        AppendEntries(3, 0, 0, 0, 0, entries_of([2, 1])),
        AppendEntries(3, 0, 0, 0, 0, entries_of([4])),
        AppendEntries(3, 0, 0, 0, 0, entries_of([0])),
        AppendEntries(2**63, 0, 0, 0, 0, ()),
    ],
)
def test_an_append_that_no_leader_can_send_is_ignored(message: AppendEntries) -> None:
    server = ScriptedServer()
    assert server.receive("n2", message) == []
    assert (server.core.term, server.core.leader, server.core.last_index) == (0, None, 0)


def test_a_snapshot_is_refused_but_counts_as_word_from_the_leader() -> None:
    server = ScriptedServer(log=[1, 1])
    [reply] = server.receive("n2", InstallSnapshot(3, 10, 2, 4, b"state"))
    assert reply == AppendReply(3, False, 10, 4, 0, 3)
    assert (server.core.term, server.core.leader, server.core.last_index) == (3, "n2", 2)


def test_a_snapshot_of_an_old_leader_is_refused_with_the_current_term() -> None:
    server = ScriptedServer(term=5)
    [reply] = server.receive("n2", InstallSnapshot(3, 10, 2, 0, b""))
    assert isinstance(reply, AppendReply)
    assert (reply.term, reply.success, server.core.leader) == (5, False, None)
