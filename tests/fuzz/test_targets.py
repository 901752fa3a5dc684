"""Bytes near what the product writes: none of them crashes, hangs, or takes memory by its word."""

from __future__ import annotations

import random
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from atleastonce.system.http.framing import FramingError, RequestParser
from atleastonce.system.node.frames import (
    FRAME_BYTES_MAX,
    HANDSHAKE_BYTES_MAX,
    FrameBuffer,
    FrameError,
    decode_forward,
    decode_hello,
    decode_reply,
    decode_welcome,
    header,
)
from atleastonce.system.node.snapshot_frames import decode_snapshot
from atleastonce.system.raft.members import decode_members
from atleastonce.system.raft.messages import decode_message

from .seeds import SEEDS
from .targets import LIMITS, TARGETS, log, mutations, pack_files

INPUTS = 4_000
PEAK_BYTES_MAX = 256 * 1024


@contextmanager
def little_memory() -> Iterator[None]:
    """Fail if more memory is ever taken than any of these tiny inputs can need."""
    tracemalloc.start()
    try:
        yield
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < PEAK_BYTES_MAX, f"{peak} bytes were taken"


@pytest.mark.parametrize("name", sorted(TARGETS))
def test_inputs_near_real_ones_end_as_they_should(name: str) -> None:
    target, seeds = TARGETS[name], list(SEEDS[name]())
    chance = random.Random(1)
    for seed in seeds:
        target(seed)
        for data in mutations(seed, INPUTS // len(seeds), chance):
            target(data)
    for data in (b"", *[bytes([byte]) for byte in range(256)]):
        target(data)


@pytest.mark.parametrize("most", [HANDSHAKE_BYTES_MAX, FRAME_BYTES_MAX])
def test_a_frame_that_is_too_long_is_refused_by_its_length_alone(most: int) -> None:
    with little_memory():
        for length in (most + 1, 2**31, 2**32 - 1):
            buffer = FrameBuffer(most)
            buffer.feed(header(length, 0))
            with pytest.raises(FrameError, match=f"frame of {length} bytes"):
                buffer.next_frame()


def test_a_frame_that_is_announced_takes_no_memory_before_it_comes() -> None:
    with little_memory():
        buffer = FrameBuffer(FRAME_BYTES_MAX)
        buffer.feed(header(FRAME_BYTES_MAX, 0) + b"a few bytes")
        assert buffer.next_frame() is None


DECODERS: tuple[Callable[[bytes], object], ...] = (
    decode_forward,
    decode_reply,
    decode_hello,
    decode_welcome,
    decode_snapshot,
    decode_message,
    decode_members,
)
FOUR_BILLION = b"\xff\xff\xff\xff"
ANNOUNCED = [
    b"\xdd" + FOUR_BILLION,  # An array,
    b"\xdf" + FOUR_BILLION,  # a map,
    b"\xdb" + FOUR_BILLION,  # a text,
    b"\xc6" + FOUR_BILLION,  # bytes of that length.
]


@pytest.mark.parametrize("announced", ANNOUNCED)
@pytest.mark.parametrize(
    "before",
    [
        b"",
        b"\x98\xa7forward",
        b"\x98\xa7forward\x01\xa3GET\xa1/",
        b"\x98\xa7forward\x01\xa3GET\xa1/\x80",
        b"\x97\xa5reply\x01\xcc\xc8\xa1a",
        b"\x97\xa2ae\x01\x01\x01\x01\x01",
        b"\x97\xa2ae\x01\x01\x01\x01\x01\x91\x94\x01\x01\x01",
        b"\x83\xa4type\xa5hello\xa4node",
        b"\x94\xa5chunk\x01",
        b"\x93",
    ],
)
def test_a_length_inside_a_message_takes_no_memory_by_its_word(
    before: bytes, announced: bytes
) -> None:
    with little_memory():
        for decode in DECODERS:
            with pytest.raises((FrameError, ValueError)):
                decode(before + announced)


def test_a_length_in_a_log_takes_no_memory_by_its_word() -> None:
    seed = next(SEEDS["log"]())
    with little_memory():
        for at in range(1, len(seed) - 4):
            log(seed[:at] + FOUR_BILLION + seed[at + 4 :])
        log(pack_files([("0000000000000001.wal", b"ALO-WAL\n" + FOUR_BILLION * 8)]))


@pytest.mark.parametrize("length", [LIMITS.body_bytes_max + 1, 10**18, 10**30])
def test_a_body_that_is_too_long_is_refused_by_its_length_alone(length: int) -> None:
    with little_memory():
        parser = RequestParser(LIMITS)
        parser.feed(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n" % length)
        with pytest.raises(FramingError) as caught:
            parser.next_request()
    assert caught.value.status in (400, 413)


def test_a_chunk_that_is_announced_takes_no_memory_before_it_comes() -> None:
    head = b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
    with little_memory():
        parser = RequestParser(LIMITS)
        parser.feed(head + b"7fffffffffffffff\r\nfew")
        assert parser.next_request() is None
        assert parser.unfinished_bytes == 3


@pytest.mark.parametrize(
    ("start", "more"),
    [
        (b"", b"x"),
        (b"GET /", b"a" * 100),
        (b"GET / HTTP/1.1\r\nHost: a\r\n", b"a: b\r\n"),
        (b"GET / HTTP/1.1\r\nHost: a\r\na", b"a" * 100),
        (b"GET / HTTP/1.1\r\nHost: a\r\na: ", b"b" * 100),
    ],
)
def test_a_head_without_an_end_is_refused_at_its_limit(start: bytes, more: bytes) -> None:
    with little_memory():
        parser = RequestParser(LIMITS)
        parser.feed(start)
        for _ in range(2 * LIMITS.header_bytes_max // len(more)):
            parser.feed(more)
        with pytest.raises(FramingError) as caught:
            parser.next_request()
    assert caught.value.status in (405, 431)


def test_trailers_without_an_end_are_refused_at_the_limit_of_headers() -> None:
    with little_memory():
        parser = RequestParser(LIMITS)
        parser.feed(b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n")
        for _ in range(LIMITS.header_bytes_max):
            parser.feed(b"a: b\r\n")
        with pytest.raises(FramingError) as caught:
            parser.next_request()
    assert caught.value.status == 431
