"""Frames and the handshake in front of them, on memory streams."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable

import pytest
import trio
import trio.testing
from hypothesis import given, settings
from hypothesis import strategies as st

from atleastonce.system.node.frames import (
    HEADER_BYTES,
    Forward,
    FrameBuffer,
    FrameError,
    Hello,
    Reply,
    TryAgain,
    Withdraw,
    decode_forward,
    decode_hello,
    decode_reply,
    decode_welcome,
    encode,
    frame,
    header,
)
from atleastonce.system.node.handshake import CHALLENGE_BYTES, HandshakeError, admit, greet

TOKEN = b"a token that all nodes know"


@given(st.lists(st.binary(max_size=50), max_size=6), st.lists(st.integers(0, 400), max_size=8))
def test_frames_survive_any_cut(contents: list[bytes], cuts: list[int]) -> None:
    stream = b"".join(frame(content) for content in contents)
    buffer = FrameBuffer(100)
    found: list[bytes] = []
    start = 0
    for cut in [*sorted(min(cut, len(stream)) for cut in cuts), len(stream)]:
        buffer.feed(stream[start:cut])
        found.extend(buffer.frames())
        start = cut
    assert found == contents


def test_a_frame_above_the_limit_is_refused_by_its_length() -> None:
    buffer = FrameBuffer(100)
    buffer.feed(header(101, 0))
    with pytest.raises(FrameError, match="frame of 101 bytes; at most 100"):
        buffer.next_frame()


@given(
    st.lists(st.binary(min_size=1, max_size=60), min_size=1, max_size=4),
    st.integers(min_value=0),
    st.integers(min_value=0),
)
def test_two_words_that_changed_places_are_noticed(
    contents: list[bytes], first: int, second: int
) -> None:
    stream = bytearray(b"".join(frame(content) for content in contents))
    first, second = (2 * (place % (len(stream) // 2)) for place in (first, second))
    one, other = bytes(stream[first : first + 2]), bytes(stream[second : second + 2])
    stream[first : first + 2], stream[second : second + 2] = other, one
    buffer = FrameBuffer(1 << 20)
    buffer.feed(stream)

    if one == other:
        assert list(buffer.frames()) == contents
    else:
        with pytest.raises(FrameError, match="checksum"):
            list(buffer.frames())


@given(st.binary(max_size=100))
def test_garbage_is_a_frame_error_for_every_decoder(content: bytes) -> None:
    decoders: list[Callable[[bytes], object]] = [
        decode_forward,
        decode_reply,
        decode_hello,
        decode_welcome,
    ]
    for decode in decoders:
        try:
            decode(content)
        except FrameError:
            continue


def test_messages_read_back() -> None:
    for request in (
        Forward(1, "POST", "/api/v1/push", {"content-type": "a/b"}, b"{}", "id", 5000),
        Withdraw(1, client_gone=True),
    ):
        assert decode_forward(encode(request)[HEADER_BYTES:]) == request
    for answer in (
        Reply(1, 201, "application/json", [("retry-after", "1")], b"[]", "lease"),
        TryAgain(1, handed_over=False),
    ):
        assert decode_reply(encode(answer)[HEADER_BYTES:]) == answer


Outcome = list[BaseException | str]


async def _note(outcome: Outcome, task: Callable[[], Awaitable[str]]) -> None:
    try:
        outcome.append(await task())
    except (FrameError, HandshakeError) as error:
        outcome.append(error)


def shake_hands(
    dialer_token: bytes = TOKEN, node: str = "n1", to: str = "n2"
) -> tuple[Outcome, Outcome]:
    """What the dialer and the listener n2 conclude."""
    dialer: Outcome = []
    listener: Outcome = []

    async def main() -> None:
        left, right = trio.testing.memory_stream_pair()
        challenges = os.urandom(CHALLENGE_BYTES), os.urandom(CHALLENGE_BYTES)

        async def dial() -> str:
            async with left:
                await greet(left, dialer_token, node, to, "raft", challenges[0])
            return "welcome"

        async def listen() -> str:
            async with right:
                hello, _ = await admit(right, TOKEN, "n2", challenges[1])
            return f"{hello.node} {hello.channel}"

        async with trio.open_nursery() as nursery:
            nursery.start_soon(_note, dialer, dial)
            nursery.start_soon(_note, listener, listen)

    trio.run(main)
    return dialer, listener


def test_nodes_with_the_same_token_meet() -> None:
    assert shake_hands() == (["welcome"], ["n1 raft"])


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"dialer_token": b"another token of that length"}, "does not know this cluster's token"),
        ({"node": "n2"}, "'n2' cannot be the name of a peer"),
        ({"node": "n 9"}, "'n 9' cannot be the name of a peer"),
        ({"to": "n3"}, "looks for 'n3', and this is n2"),
    ],
)
def test_a_stranger_is_turned_away(changes: dict[str, object], reason: str) -> None:
    dialer, listener = shake_hands(**changes)  # type: ignore[arg-type]
    assert isinstance(listener[0], HandshakeError)
    assert reason in str(listener[0])
    assert isinstance(dialer[0], FrameError)


def test_a_listener_that_does_not_know_the_token_is_not_believed() -> None:
    outcome: Outcome = []

    async def main() -> None:
        left, right = trio.testing.memory_stream_pair()

        async def dial() -> str:
            await greet(left, TOKEN, "n1", "n2", "raft", bytes(CHALLENGE_BYTES))
            return "welcome"

        async def impostor() -> None:
            await right.send_all(frame(bytes(CHALLENGE_BYTES)))
            await right.receive_some()
            # The best it can do: send the dialer's own kind of proof back.
            await right.send_all(frame(b"\x82\xa4type\xa7welcome\xa5proof\xc4\x01x"))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(_note, outcome, dial)
            nursery.start_soon(impostor)

    trio.run(main)
    assert isinstance(outcome[0], HandshakeError)


@settings(max_examples=60)
@given(st.binary(max_size=120))
def test_garbage_ends_a_handshake_on_either_side(garbage: bytes) -> None:
    outcome: Outcome = []

    async def main() -> None:
        for side in ("dialer", "listener"):
            left, right = trio.testing.memory_stream_pair()

            async def dial(stream: trio.abc.Stream = left) -> str:
                await greet(stream, TOKEN, "n1", "n2", "raft", bytes(CHALLENGE_BYTES))
                return "welcome"

            async def listen(stream: trio.abc.Stream = left) -> str:
                await admit(stream, TOKEN, "n2", bytes(CHALLENGE_BYTES))
                return "admitted"

            async with trio.open_nursery() as nursery:
                nursery.start_soon(_note, outcome, dial if side == "dialer" else listen)
                await right.send_all(garbage)
                await right.send_eof()

    trio.run(main)
    assert all(isinstance(result, FrameError | HandshakeError) for result in outcome)
    assert len(outcome) == 2


def test_a_greeting_does_not_carry_the_token() -> None:
    sent = bytearray()

    async def main() -> None:
        left, right = trio.testing.memory_stream_pair()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(greet, left, TOKEN, "n1", "n2", "raft", bytes(CHALLENGE_BYTES))
            await right.send_all(frame(bytes(CHALLENGE_BYTES)))
            sent.extend(await right.receive_some())
            nursery.cancel_scope.cancel()

    trio.run(main)
    hello = decode_hello(bytes(sent[HEADER_BYTES:]))
    assert isinstance(hello, Hello)
    assert TOKEN not in bytes(sent)
