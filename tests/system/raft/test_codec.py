"""Messages on the wire."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from atleastonce.system.raft.messages import (
    NUMBER_MAX,
    AppendEntries,
    AppendReply,
    Entry,
    EntryKind,
    Message,
    RequestVote,
    TimeoutNow,
    VoteReply,
    decode_message,
    encode_message,
)

numbers = st.integers(0, NUMBER_MAX)
entries = st.builds(Entry, numbers, numbers, st.sampled_from(EntryKind), st.binary(max_size=40))
messages: st.SearchStrategy[Message] = st.one_of(
    st.builds(RequestVote, numbers, numbers, numbers, st.booleans(), st.booleans()),
    st.builds(VoteReply, numbers, st.booleans(), st.booleans()),
    st.builds(
        AppendEntries,
        numbers,
        numbers,
        numbers,
        numbers,
        numbers,
        st.lists(entries, max_size=4).map(tuple),
    ),
    st.builds(AppendReply, numbers, st.booleans(), numbers, numbers, numbers, numbers),
    st.builds(TimeoutNow, numbers),
)


@given(messages)
def test_a_decoded_message_equals_the_encoded_one(message: Message) -> None:
    decoded = decode_message(encode_message(message))
    assert decoded == message
    assert type(decoded) is type(message)


@given(st.binary(max_size=60))
def test_arbitrary_bytes_are_a_message_or_a_value_error(data: bytes) -> None:
    try:
        message = decode_message(data)
    except ValueError:
        return
    assert decode_message(encode_message(message)) == message


@given(messages, st.data())
def test_a_truncated_message_is_refused(message: Message, data: st.DataObject) -> None:
    encoded = encode_message(message)
    cut = data.draw(st.integers(0, len(encoded) - 1))
    with pytest.raises(ValueError, match="not a Raft message"):
        decode_message(encoded[:cut])


@pytest.mark.parametrize(
    "fields",
    [
        ["tn", -1],
        ["tn", NUMBER_MAX + 1],
        ["tn", "1"],
        ["xx", 1],
        ["vr", 1, "yes", False],
        ["ae", 1, 0, 0, 0, 0, [[1, 1, 9, b""]]],
        {"term": 1},
        7,
    ],
)
def test_a_field_of_a_wrong_kind_or_range_is_refused(fields: object) -> None:
    with pytest.raises(ValueError, match="not a Raft message"):
        decode_message(msgspec.msgpack.encode(fields))


def test_a_configuration_entry_is_carried_like_any_other() -> None:
    entry = Entry(3, 9, EntryKind.CONFIG, b"voters")
    message = AppendEntries(3, 8, 2, 7, 0, (entry,))
    decoded = decode_message(encode_message(message))
    assert isinstance(decoded, AppendEntries)
    assert decoded.entries[0].kind is EntryKind.CONFIG
