"""What Raft servers store and say to each other, and how it is coded on the wire.

Every record is an immutable msgspec struct; on the wire a message is a MessagePack array that
begins with its tag. Terms and indexes are integers from 0 up to `NUMBER_MAX`; 0 is the term and
index before the first entry.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Annotated, Final

import msgspec

NUMBER_MAX: Final = 2**62

Number = Annotated[int, msgspec.Meta(ge=0, le=NUMBER_MAX)]


class EntryKind(IntEnum):
    """What an entry's data means to whoever applies it."""

    NOOP = 0
    """Appended by a new leader to commit what earlier terms left behind; no data."""
    COMMAND = 1
    """Opaque data for the state machine."""
    CONFIG = 2
    """A set of voters. Carried and applied like any entry; this core does not act on it yet."""


class Entry(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One slot of the log."""

    term: Number
    index: Number
    kind: EntryKind
    data: bytes


class HardState(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What a server must never forget: its term, and whom it voted for in that term."""

    term: Number
    voted_for: str | None


class RequestVote(msgspec.Struct, frozen=True, array_like=True, tag="rv", gc=False):
    """A candidate asks for a vote in `term`.

    Attributes:
        term: The term to be elected in. For a pre-vote this is the sender's term plus one,
            and nobody's term changes because of it.
        last_log_index: Index of the candidate's last entry.
        last_log_term: Term of that entry.
        pre_vote: "Would you vote for me?" Binds nobody.
        transfer: The leader asked for this election, so voters do not protect that leader.
    """

    term: Number
    last_log_index: Number
    last_log_term: Number
    pre_vote: bool
    transfer: bool


class VoteReply(msgspec.Struct, frozen=True, array_like=True, tag="vr", gc=False):
    """Answer to `RequestVote`: the asked term when granted, otherwise the voter's own term."""

    term: Number
    granted: bool
    pre_vote: bool


class AppendEntries(msgspec.Struct, frozen=True, array_like=True, tag="ae"):
    """The leader of `term` replicates entries; empty as a heartbeat.

    Attributes:
        term: The leader's term.
        prev_index: Index just before the first entry.
        prev_term: Term of the entry at `prev_index`.
        commit_index: The leader's commit index when it sent this.
        round: The leader's latest round; the answer echoes it, which tells the leader that the
            follower spoke after the round had begun.
        entries: Contiguous, from `prev_index + 1`.
    """

    term: Number
    prev_index: Number
    prev_term: Number
    commit_index: Number
    round: Number
    entries: tuple[Entry, ...]


class AppendReply(msgspec.Struct, frozen=True, array_like=True, tag="ar", gc=False):
    """Answer to `AppendEntries` and `InstallSnapshot`.

    Attributes:
        term: The follower's term.
        success: The previous entry matched.
        match_index: On success, the last index known equal to the leader's log and durable here.
            On refusal, the `prev_index` that was refused.
        round: The round of the answered message.
        conflict_term: On refusal, the term of the follower's entry at the refused index; 0 when
            its log is too short to have one.
        conflict_index: On refusal, where the follower's entries of `conflict_term` begin, or one
            past the end of its log.
    """

    term: Number
    success: bool
    match_index: Number
    round: Number
    conflict_term: Number = 0
    conflict_index: Number = 0


class InstallSnapshot(msgspec.Struct, frozen=True, array_like=True, tag="is", gc=False):
    """The leader of `term` offers a snapshot in place of entries it no longer has.

    A server that cannot install snapshots (this version) refuses by an `AppendReply` with
    `success=False`, `match_index` the refused index and `conflict_index` one past the end of its
    log, keeps its log as it is, and still counts the message as word from its leader.
    """

    term: Number
    last_included_index: Number
    last_included_term: Number
    round: Number
    data: bytes


class TimeoutNow(msgspec.Struct, frozen=True, array_like=True, tag="tn", gc=False):
    """The leader of `term` asks its successor to start an election at once."""

    term: Number


Message = RequestVote | VoteReply | AppendEntries | AppendReply | InstallSnapshot | TimeoutNow

_ENCODER: Final = msgspec.msgpack.Encoder()
_DECODER: Final[msgspec.msgpack.Decoder[Message]] = msgspec.msgpack.Decoder(Message)


def encode_message(message: Message) -> bytes:
    """Return the wire form of a message."""
    return _ENCODER.encode(message)


def decode_message(data: bytes) -> Message:
    """Return the message that `data` is the wire form of.

    Raises:
        ValueError: The bytes are not exactly one message with fields in range.
    """
    try:
        return _DECODER.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"not a Raft message: {error}") from error


def is_coherent(message: AppendEntries) -> bool:
    """Whether every field is in range, and the entries are such as a leader can send.

    They follow `prev_index` without a gap, in terms from 1 up to the leader's that never fall.
    Linear in the number of entries.
    """
    term, index = message.prev_term, message.prev_index
    if index < 0 or term < 0 or (index == 0) != (term == 0):
        return False
    if message.commit_index < 0 or message.round < 0:
        return False
    for entry in message.entries:
        index += 1
        if entry.index != index or entry.term < term or entry.term == 0:
            return False
        term = entry.term
    return term <= message.term <= NUMBER_MAX and index <= NUMBER_MAX
