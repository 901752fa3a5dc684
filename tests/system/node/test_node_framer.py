"""Raft messages that go to several peers in a row are encoded once, and never mixed up."""

from __future__ import annotations

from atleastonce.system.node.frames import FRAME_BYTES_MAX, FrameBuffer
from atleastonce.system.node.links import RaftFramer
from atleastonce.system.raft.messages import (
    AppendEntries,
    Entry,
    EntryKind,
    Message,
    TimeoutNow,
    decode_message,
)


def append(*entries: Entry, commit_index: int = 4) -> AppendEntries:
    return AppendEntries(2, 4, 2, commit_index, 1, entries)


def content(framed: bytes) -> Message:
    """The message in a frame."""
    buffer = FrameBuffer(FRAME_BYTES_MAX)
    buffer.feed(framed)
    (found,) = buffer.frames()
    return decode_message(found)


def test_the_same_append_for_another_peer_is_not_encoded_again() -> None:
    framer, entry = RaftFramer(), Entry(2, 5, EntryKind.COMMAND, b"x" * 1000)
    first = framer.framed(append(entry))
    assert framer.framed(append(entry)) is first
    assert content(first) == append(entry)


def test_whatever_differs_is_encoded_for_itself() -> None:
    framer = RaftFramer()
    one, two = (Entry(2, 5, EntryKind.COMMAND, data) for data in (b"one", b"two"))
    messages: list[Message] = [
        append(one),
        append(two),
        append(two, commit_index=5),
        append(),
        TimeoutNow(2),
        append(one),
    ]
    assert [content(framer.framed(message)) for message in messages] == messages
