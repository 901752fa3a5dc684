"""What hostile bytes must not do: one function a surface, from bytes to nothing or a raised error.

A target returns for whatever is acceptable, refusals included, and raises for anything else. Each
needs no disk, no socket and no clock, so that the same bytes always end the same way.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Final

from atleastonce.system.http.framing import (
    FramingError,
    HttpLimits,
    Request,
    RequestParser,
    encode_response,
)
from atleastonce.system.http.routes import Answer, route
from atleastonce.system.node import frames
from atleastonce.system.node.snapshot_frames import decode_snapshot, encode_snapshot
from atleastonce.system.raft.members import decode_members, encode_members
from atleastonce.system.raft.messages import (
    Entry,
    EntryKind,
    HardState,
    decode_message,
    encode_message,
)
from atleastonce.system.storage.errors import DamagedLogError
from atleastonce.system.storage.format import Encoder, SegmentHeader, segment_name
from atleastonce.system.storage.simdisk import SimDisk
from atleastonce.system.storage.wal import Wal, WalLimits

from ..system.http.wire import CARRIED, Wire

Target = Callable[[bytes], None]

LIMITS: Final = HttpLimits(header_bytes_max=2048, body_bytes_max=64 * 1024)
FRAME_BYTES_MAX: Final = 4096
LOG: Final = "log"
REFUSALS: Final = frozenset({400, 405, 413, 431, 505})
STATED: Final = frozenset({200, 201, 204, 400, 403, 404, 409, 413})

_PEER_DECODERS: Final = (
    frames.decode_forward,
    frames.decode_reply,
    frames.decode_hello,
    frames.decode_welcome,
)


def peer(data: bytes) -> None:
    """A stream of frames: cut anywhere, decoded as anything that a peer may say."""
    cut = data[0] if data else 0
    stream = data[1:]
    # Hardly any change of a frame passes its checksum; what the decoders think of it matters too.
    _decode_frame(stream[frames.HEADER_BYTES :])
    buffer = frames.FrameBuffer(FRAME_BYTES_MAX)
    for piece in (stream[:cut], stream[cut:]):
        buffer.feed(piece)
        try:
            for content in buffer.frames():
                assert len(content) <= FRAME_BYTES_MAX
                _decode_frame(content)
        except frames.FrameError:
            return
    assert len(buffer._buffer) <= len(stream), "more is held than was sent"


def _decode_frame(content: bytes) -> None:
    for decode in _PEER_DECODERS:
        try:
            message = decode(content)
        except frames.FrameError:
            continue
        again = frames.FrameBuffer(frames.FRAME_BYTES_MAX)
        again.feed(frames.encode(message))
        whole = again.next_frame()
        assert whole is not None
        assert decode(whole) == message, "a message changes on its way"
    try:
        said = decode_snapshot(content)
    except frames.FrameError:
        raft(content)
        return
    assert decode_snapshot(encode_snapshot(said)[frames.HEADER_BYTES :]) == said, (
        "a message changes on its way"
    )


def raft(data: bytes) -> None:
    """One message of the consensus protocol, or what an entry says of the membership."""
    try:
        members = decode_members(data)
        assert decode_members(encode_members(members)) == members, "a membership changes"
    except ValueError:
        pass
    try:
        message = decode_message(data)
    except ValueError:
        return
    assert decode_message(encode_message(message)) == message, "a message changes on its way"


def log(data: bytes) -> None:
    """A log folder of any content: it boots and goes on from there, or is refused with a remedy.

    The first byte says how the rest is read: as files, or as records that get right checksums.
    """
    disk = SimDisk(random.Random(0))
    disk.make_directory(LOG)
    files = _files(data[1:]) if not data or data[0] % 2 == 0 else [_chained(data[1:])]
    for name, content in files:
        disk.create(f"{LOG}/{name}")
        disk.append(f"{LOG}/{name}", [content])
        disk.fsync(f"{LOG}/{name}")
    disk.fsync_dir(LOG)
    try:
        wal, recovered = Wal.open(disk, LOG, WalLimits(segment_bytes=600))
    except DamagedLogError as error:
        if not (error.file and error.reason and error.remedy):
            raise
        return
    _go_on(disk, wal, recovered.entries, recovered.start_index)


def _go_on(disk: SimDisk, wal: Wal, entries: list[Entry], start_index: int) -> None:
    """Whatever was recovered is there again behind another entry and another start."""
    term = max([1, *[entry.term for entry in entries]])
    if term >= 1 << 63:
        return
    next_index = start_index + len(entries)
    added = Entry(term, next_index, EntryKind.COMMAND, b"one more")
    wal.append(HardState(term, "n1"), None, [added])
    wal.sync()
    wal.close()
    _, again = Wal.open(disk, LOG, WalLimits(segment_bytes=600))
    assert again.entries == [*entries, added], "the log forgets what it recovered"


def _files(data: bytes) -> list[tuple[str, bytes]]:
    """Files as `pack_files` wrote them, as far as they go; their names are taken as they come."""
    found: dict[str, bytes] = {}
    at = 0
    while at + 3 <= len(data) and len(found) < 4:
        length = data[at]
        size = int.from_bytes(data[at + 1 : at + 3], "little")
        name = data[at + 3 : at + 3 + length].decode("latin-1").replace("/", "_").strip(". \0")
        at += 3 + length
        found[name or "x"] = data[at : at + size]
        at += size
    return list(found.items())


def pack_files(files: list[tuple[str, bytes]]) -> bytes:
    """An input of `log` with these files."""
    parts = [b"\0"]
    for name, content in files:
        size = len(content).to_bytes(2, "little")
        parts += [bytes([len(name)]), size, name.encode("latin-1"), content]
    return b"".join(parts)


def _chained(data: bytes) -> tuple[str, bytes]:
    """One segment of records of any kind and payload, each vouching for the one before."""
    header = SegmentHeader(1, 0, 7)
    encoder = Encoder(header.seed, header.seed, 1)
    at = 0
    while at + 2 <= len(data):
        kind, length = data[at], data[at + 1]
        encoder._record(kind, data[at + 2 : at + 2 + length], encoder.next_seq - 1)
        at += 2 + length
    return segment_name(1), header.encode() + b"".join(encoder.take())


def http(data: bytes) -> None:
    """Bytes of one client, through parser, routes, machine and renderer to the answers' bytes."""
    cut = data[0] if data else 0
    stream = data[1:]
    # Hardly any change of a frame passes its checksum; what the decoders think of it matters too.
    _decode_frame(stream[frames.HEADER_BYTES :])
    requests, failed = _parse(stream, [])
    pieces, failed_in_pieces = _parse(stream, [min(cut, len(stream))])
    assert (requests, failed) == (pieces, failed_in_pieces), "how bytes arrive makes a difference"
    wire = Wire()
    for request in requests:
        answer = _answer(wire, request)
        assert answer.status in STATED, f"{answer.status} is not stated"
        encode_response(answer.status, answer.body, answer.content_type, answer.headers, False)


def _answer(wire: Wire, request: Request) -> Answer:
    """What the client would get; what only a node can answer is answered with nothing."""
    request_id = request.headers.get("x-request-id", "r")
    found = route(request.method, request.target, request.headers, request.body, request_id)
    if isinstance(found, Answer):
        return found
    return wire.carry(found) if isinstance(found, CARRIED) else Answer(200, b"")


def _parse(stream: bytes, cuts: list[int]) -> tuple[list[Request], bool]:
    parser = RequestParser(LIMITS)
    for start, end in pairwise([0, *cuts, len(stream)]):
        parser.feed(stream[start:end])
    assert parser.unfinished_bytes <= LIMITS.body_bytes_max, "more is held than a body may have"
    return _taken(parser)


def _taken(parser: RequestParser) -> tuple[list[Request], bool]:
    requests: list[Request] = []
    try:
        while (request := parser.next_request()) is not None:
            assert len(request.body) <= LIMITS.body_bytes_max
            requests.append(request)
    except FramingError as error:
        if error.status not in REFUSALS:
            raise
        return requests, True
    return requests, False


TARGETS: Final[dict[str, Target]] = {"peer": peer, "raft": raft, "log": log, "http": http}


def mutations(seed: bytes, count: int, chance: random.Random) -> Iterator[bytes]:
    """Inputs near one: bytes flipped, cut, repeated, inserted."""
    for _ in range(count):
        content = bytearray(seed)
        for _ in range(chance.randint(1, 4)):
            at = chance.randrange(len(content) + 1)
            match chance.randrange(4):
                case 0 if at < len(content):
                    content[at] ^= 1 << chance.randrange(8)
                case 1:
                    del content[at : at + chance.randint(1, 20)]
                case 2:
                    content[at:at] = content[at : at + chance.randint(1, 20)]
                case _:
                    content[at:at] = chance.randbytes(chance.randint(1, 8))
        yield bytes(content)
