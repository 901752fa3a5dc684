"""What nodes say to each other: length-prefixed frames on three kinds of connections.

A node opens two connections to each peer. On the `raft` one it only sends raft messages. On the
`forward` one it sends requests and gets answers back, so that a large body never delays a
heartbeat. A third one carries a snapshot while one is needed (`snapshot_frames`).

A frame is its content after twelve bytes: the content's length, the CRC-32 of these four bytes, and
that of the content, each big-endian. TCP's own checksum is a sum of 16 bits that misses, among
others, every exchange of two words; a length with a checksum of its own never makes a node wait
for bytes that nobody sends.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from typing import Final, Literal, TypeVar

import msgspec

FRAME_BYTES_MAX: Final = 96 * 1024 * 1024
HANDSHAKE_BYTES_MAX: Final = 1024

_HEADER: Final = struct.Struct(">III")
HEADER_BYTES: Final = _HEADER.size
_LENGTH_BYTES: Final = 4

Channel = Literal["raft", "forward", "snapshot"]


class FrameError(Exception):
    """A peer sent what no peer may send; its connection must be closed."""


class FrameBuffer:
    """Cuts a stream of bytes into frames.

    Attributes:
        frame_bytes_max: Longer frames are refused as soon as their length is known.
    """

    def __init__(self, frame_bytes_max: int) -> None:
        self.frame_bytes_max = frame_bytes_max
        self._buffer = bytearray()

    def feed(self, data: bytes | bytearray | memoryview) -> None:
        """Take the next bytes, of any number."""
        self._buffer += data

    @property
    def is_cut(self) -> bool:
        """Whether a frame has begun and not ended, as far as has been looked."""
        return bool(self._buffer)

    def frames(self) -> Iterator[bytes]:
        """Take the contents of all whole frames, oldest first.

        Raises:
            FrameError: A frame is longer than allowed, or is not what was sent.
        """
        while (frame := self.next_frame()) is not None:
            yield frame

    def next_frame(self) -> bytes | None:
        """Take the oldest whole frame's content, or None when more bytes are needed.

        Raises:
            FrameError: The frame is longer than allowed, or is not what was sent.
        """
        buffer = self._buffer
        if len(buffer) < HEADER_BYTES:
            return None
        length, length_check, check = _HEADER.unpack_from(buffer)
        if zlib.crc32(buffer[:_LENGTH_BYTES]) != length_check:
            raise FrameError("frame whose length fails its checksum")
        if length > self.frame_bytes_max:
            raise FrameError(f"frame of {length} bytes; at most {self.frame_bytes_max} allowed")
        end = HEADER_BYTES + length
        if len(buffer) < end:
            return None
        content = bytes(memoryview(buffer)[HEADER_BYTES:end])
        if zlib.crc32(content) != check:
            raise FrameError(f"frame of {length} bytes that fails its checksum")
        del buffer[:end]
        return content


def frame(content: bytes) -> bytes:
    """Put the length and the checksums in front of a frame's content.

    Raises:
        FrameError: The content is longer than any peer accepts.
    """
    if len(content) > FRAME_BYTES_MAX:
        raise FrameError(f"frame of {len(content)} bytes; at most {FRAME_BYTES_MAX} allowed")
    return header(len(content), zlib.crc32(content)) + content


def header(length: int, check: int) -> bytes:
    """Make what comes before a content of this length and CRC-32."""
    return _HEADER.pack(length, zlib.crc32(length.to_bytes(_LENGTH_BYTES, "big")), check)


class Hello(msgspec.Struct, frozen=True, tag="hello"):
    """The dialer names itself and proves that it knows the token.

    Attributes:
        incarnation: The id of its data folder; empty when it has none.
        address: Where it is reached, as `IP:PORT`; empty when that need not be told.
    """

    node: str
    to: str
    channel: Channel
    challenge: bytes
    proof: bytes
    incarnation: str = ""
    address: str = ""


class Welcome(msgspec.Struct, frozen=True, tag="welcome"):
    """The listener proves the same.

    Attributes:
        incarnation: The id of the listener's data folder; empty when it has none.
        known: The id by which the listener's membership knows the dialer; empty for none.
    """

    proof: bytes
    incarnation: str = ""
    known: str = ""


class Forward(msgspec.Struct, frozen=True, array_like=True, tag="forward"):
    """A client's request for the leader.

    Attributes:
        correlation: Named by the reply; unique on its connection.
        deadline_ms: How much longer the client is willing to wait.
        asking: See `broker.commands.Pop`; empty unless it is a pop.
        trial: See `broker.commands.Pop`.
    """

    correlation: int
    method: str
    target: str
    headers: dict[str, str]
    body: bytes
    request_id: str
    deadline_ms: int
    asking: str = ""
    trial: int = 0


class Reply(msgspec.Struct, frozen=True, array_like=True, tag="reply"):
    """The leader's answer.

    Attributes:
        lease: Receipt for the claim that the answer hands out, to be taken back if nobody gets to
            read it (see `receipts`).
    """

    correlation: int
    status: int
    content_type: str
    headers: list[tuple[str, str]]
    body: bytes
    lease: str | None


class TryAgain(msgspec.Struct, frozen=True, array_like=True, tag="again"):
    """Not answered here; ask the leader, with the same request id.

    Attributes:
        handed_over: Whether the request may have reached the log.
    """

    correlation: int
    handed_over: bool


class Withdraw(msgspec.Struct, frozen=True, array_like=True, tag="withdraw"):
    """The asker does not wait for this answer any longer.

    Attributes:
        client_gone: The client hung up: a claim made for it is to be taken back. Otherwise the
            asker is stopping: a parked pop is to be answered empty, anything else as usual.
    """

    correlation: int
    client_gone: bool


class Undelivered(msgspec.Struct, frozen=True, array_like=True, tag="undelivered"):
    """An answer could not be handed to its client: its claim is to be taken back."""

    lease: str


class NodeReport(msgspec.Struct, frozen=True, array_like=True, tag="report"):
    """How the dialer is, said once a second.

    Attributes:
        disk_full: Whether its disk is above the high-water mark.
        broker_us: The broker's time, from a serving leader.
        role: Its role; empty from a node that does not say.
        term: Its term.
        commit: The highest log index that it knows to be committed.
        applied: The highest that it has applied.
        log_floor: From a leader: up to where all other members hold everything.
    """

    disk_full: bool
    broker_us: int | None
    role: str = ""
    term: int = 0
    commit: int = 0
    applied: int = 0
    log_floor: int | None = None


ForwardFrame = Forward | Withdraw | Undelivered | NodeReport
ReplyFrame = Reply | TryAgain

T = TypeVar("T")

_encoder: Final = msgspec.msgpack.Encoder()
_forward_decoder: Final = msgspec.msgpack.Decoder(ForwardFrame)
_reply_decoder: Final = msgspec.msgpack.Decoder(ReplyFrame)
_hello_decoder: Final = msgspec.msgpack.Decoder(Hello)
_welcome_decoder: Final = msgspec.msgpack.Decoder(Welcome)


def encode(message: Hello | Welcome | ForwardFrame | ReplyFrame) -> bytes:
    """Encode one message as a frame, length included."""
    return frame(_encoder.encode(message))


def _decode(decoder: msgspec.msgpack.Decoder[T], content: bytes, otherwise: str) -> T:
    try:
        return decoder.decode(content)
    except msgspec.MsgspecError as error:
        raise FrameError(f"{otherwise}: {error}") from None


def decode_forward(content: bytes) -> ForwardFrame:
    """Decode what a dialer says on a `forward` connection.

    Raises:
        FrameError: It is nothing of the kind.
    """
    return _decode(_forward_decoder, content, "no request frame")


def decode_reply(content: bytes) -> ReplyFrame:
    """Decode what a listener says on a `forward` connection.

    Raises:
        FrameError: It is nothing of the kind.
    """
    return _decode(_reply_decoder, content, "no answer frame")


def decode_hello(content: bytes) -> Hello:
    """Decode a dialer's first frame.

    Raises:
        FrameError: It is nothing of the kind.
    """
    return _decode(_hello_decoder, content, "no greeting")


def decode_welcome(content: bytes) -> Welcome:
    """Decode a listener's answer to a greeting.

    Raises:
        FrameError: It is nothing of the kind.
    """
    return _decode(_welcome_decoder, content, "no welcome")
