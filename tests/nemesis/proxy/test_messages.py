"""Telling peer messages apart in a stream."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from atleastonce.nemesis.proxy.messages import ANSWERS, KINDS, MessageSieve, kind_of
from atleastonce.system.node.frames import frame
from atleastonce.system.raft.messages import (
    AppendEntries,
    AppendReply,
    Entry,
    EntryKind,
    Message,
    RequestVote,
    TimeoutNow,
    VoteReply,
    encode_message,
)

MESSAGES: dict[str, Message] = {
    "appends": AppendEntries(3, 7, 2, 6, 9, (Entry(3, 8, EntryKind.COMMAND, b"x" * 300),)),
    "append-answers": AppendReply(3, True, 8, 9),
    "vote-requests": RequestVote(4, 8, 3, True, False),
    "votes": VoteReply(4, True, False),
    "transfers": TimeoutNow(4),
}
FRAMES = {kind: frame(encode_message(message)) for kind, message in MESSAGES.items()}
GREETING = frame(b"\x87 some greeting of the dialer")


def test_every_kind_of_message_is_told_by_its_first_bytes() -> None:
    assert set(MESSAGES) == set(KINDS.values())
    for kind, message in MESSAGES.items():
        assert kind_of(encode_message(message)) == kind
    assert kind_of(b"") == kind_of(GREETING[12:]) == ""


@given(
    st.lists(st.sampled_from([*FRAMES])),
    st.sets(st.sampled_from([*FRAMES])),
    st.lists(st.integers(0, 4000)),
)
def test_unwanted_messages_go_missing_whole_however_the_stream_is_cut(
    kinds: list[str], unwanted: set[str], cuts: list[int]
) -> None:
    stream = GREETING + b"".join(FRAMES[kind] for kind in kinds)
    places = [0, *sorted(cut for cut in cuts if cut < len(stream)), len(stream)]
    sieve, kept, messages, size = MessageSieve(), b"", 0, 0
    for begin, end in pairwise(places):
        sifted = sieve.feed(stream[begin:end], unwanted)
        kept += sifted.kept
        messages += sifted.messages
        size += sifted.bytes
    assert kept == GREETING + b"".join(FRAMES[kind] for kind in kinds if kind not in unwanted)
    assert messages == sum(kind in unwanted for kind in kinds)
    assert len(kept) + size == len(stream)
    assert sieve.flush() == b""


def test_a_rule_that_comes_in_mid_message_spares_that_message() -> None:
    sieve, whole = MessageSieve(), FRAMES["append-answers"]
    assert sieve.feed(whole[:-1], ()).kept == whole[:-1]
    sifted = sieve.feed(whole[-1:] + whole, {ANSWERS})
    assert (sifted.kept, sifted.messages) == (whole[-1:], 1)


def test_what_is_no_frame_passes_as_it_is() -> None:
    sieve = MessageSieve()
    text = b"GET / HTTP/1.1\r\n\r\n"
    assert sieve.feed(text, {ANSWERS}).kept == text
    assert sieve.feed(FRAMES["append-answers"], {ANSWERS}).kept == FRAMES["append-answers"]


def test_what_is_held_back_comes_out_at_the_end() -> None:
    sieve = MessageSieve()
    assert sieve.feed(GREETING[:5], ()).kept == b""
    assert sieve.flush() == GREETING[:5]
