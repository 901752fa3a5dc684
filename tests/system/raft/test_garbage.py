"""Messages that no correct server sends."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from atleastonce.system.raft.core import Role
from atleastonce.system.raft.members import Members, encode_members
from atleastonce.system.raft.messages import (
    AppendEntries,
    AppendReply,
    Entry,
    EntryKind,
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


@settings(max_examples=300)
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


ANSWERS: list[Message] = [
    VoteReply(9, False, False),
    AppendReply(9, False, 0, 0),
    TimeoutNow(0),
]
CLAIMS: list[Message] = [
    RequestVote(9, 9, 9, False, True),
    AppendEntries(9, 0, 0, 0, 0, entries_of([9])),
]


@pytest.mark.parametrize(
    ("sender", "message"),
    [
        *((sender, message) for sender in ("n1", "") for message in ANSWERS + CLAIMS),
        *(("n9", message) for message in ANSWERS),
    ],
)
def test_messages_from_itself_and_answers_from_strangers_are_ignored(
    sender: str, message: Message
) -> None:
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
        AppendEntries(3, 0, 0, 0, 0, (Entry(1, 1, EntryKind.CONFIG, b"no membership"),)),
        AppendEntries(3, 0, 0, 0, 0, (Entry(1, 1, EntryKind.CONFIG, encode_members(Members())),)),
    ],
)
def test_an_append_that_no_leader_can_send_is_ignored(message: AppendEntries) -> None:
    server = ScriptedServer()
    assert server.receive("n2", message) == []
    assert (server.core.term, server.core.leader, server.core.last_index) == (0, None, 0)
