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
    """A membership (see `members.py`), in force on each server that has it in its log."""


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
    """Answer to `AppendEntries`.

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


class TimeoutNow(msgspec.Struct, frozen=True, array_like=True, tag="tn", gc=False):
    """The leader of `term` asks its successor to start an election at once."""

    term: Number


Message = RequestVote | VoteReply | AppendEntries | AppendReply | TimeoutNow

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
