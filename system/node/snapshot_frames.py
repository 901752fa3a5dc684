"""What the two ends of a snapshot's connection say to each other.

The sender dials, on the channel `snapshot`, and offers; the receiver says how much it has already;
chunks follow, each confirmed once it is durable; at the end the receiver says that it rests on the
snapshot, or why not.
"""

from __future__ import annotations

import hashlib
from typing import Final

import msgspec
import trio

from .frames import FrameBuffer, FrameError, frame
from .handshake import receive_frame

CHUNK_BYTES: Final = 1 << 20
CHUNKS_AHEAD_MAX: Final = 4
FRAME_BYTES_MAX: Final = 2 * CHUNK_BYTES
SILENCE_S_MAX: Final = 30.0
"""Without a word for so long, a transfer is broken off; activation may take longer."""

ACTIVATION_S_MAX: Final = 900.0


class OfferFrame(msgspec.Struct, frozen=True, array_like=True, tag="offer"):
    """A snapshot: see `storage.checkpoint_folder.Offer`."""

    index: int
    term: int
    size: int
    sha256: str
    chunk_bytes: int


class Have(msgspec.Struct, frozen=True, array_like=True, tag="have"):
    """The receiver wants it from this byte on."""

    offset: int


class Chunk(msgspec.Struct, frozen=True, array_like=True, tag="chunk"):
    """The bytes at an offset, and their SHA-256."""

    offset: int
    data: bytes
    sha256: bytes

    @property
    def is_whole(self) -> bool:
        """Whether the bytes are those that were sent."""
        return hashlib.sha256(self.data).digest() == self.sha256


class Got(msgspec.Struct, frozen=True, array_like=True, tag="got"):
    """Everything up to this byte is durable."""

    offset: int


class Resting(msgspec.Struct, frozen=True, array_like=True, tag="resting"):
    """The receiver has activated the snapshot, or needs none."""


class Declined(msgspec.Struct, frozen=True, array_like=True, tag="declined"):
    """The receiver will not take it now."""

    reason: str


SnapshotFrame = OfferFrame | Have | Chunk | Got | Resting | Declined

_encoder: Final = msgspec.msgpack.Encoder()
_decoder: Final = msgspec.msgpack.Decoder(SnapshotFrame)


def encode_snapshot(message: SnapshotFrame) -> bytes:
    """Encode one message as a frame, length included."""
    return frame(_encoder.encode(message))


def decode_snapshot(content: bytes) -> SnapshotFrame:
    """Decode what either end says on a snapshot's connection.

    Raises:
        FrameError: It is nothing of the kind.
    """
    try:
        return _decoder.decode(content)
    except msgspec.MsgspecError as error:
        raise FrameError(f"no snapshot frame: {error}") from None


async def say(stream: trio.abc.SendStream, message: SnapshotFrame) -> None:
    """Send one frame.

    Raises:
        trio.BrokenResourceError: The connection is lost.
    """
    await stream.send_all(encode_snapshot(message))


async def hear(stream: trio.abc.ReceiveStream, buffer: FrameBuffer) -> SnapshotFrame:
    """Wait for one frame.

    Raises:
        FrameError: It is none of these, or the connection has ended.
        trio.BrokenResourceError: The connection is lost.
    """
    return decode_snapshot(await receive_frame(stream, buffer))
