"""Where fuzzing begins: inputs that the product itself has made."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from typing import Final

from atleastonce.system.node.frames import (
    Forward,
    Hello,
    NodeReport,
    Reply,
    TryAgain,
    Undelivered,
    Welcome,
    Withdraw,
    encode,
    frame,
)
from atleastonce.system.node.snapshot_frames import (
    Chunk,
    Declined,
    Got,
    Have,
    OfferFrame,
    Resting,
    encode_snapshot,
)
from atleastonce.system.raft.members import Members, encode_members
from atleastonce.system.raft.messages import (
    AppendEntries,
    AppendReply,
    Entry,
    EntryKind,
    HardState,
    Message,
    RequestVote,
    TimeoutNow,
    VoteReply,
    encode_message,
)
from atleastonce.system.storage.format import ENTRY, HARD_STATE, MARK, TRUNCATE
from atleastonce.system.storage.simdisk import SimDisk
from atleastonce.system.storage.wal import Wal, WalLimits

from ..system.http.test_openapi_answers import CHAPTERS, Conversation
from .targets import LOG, pack_files

ENTRIES: Final = (
    Entry(1, 1, EntryKind.NOOP, b""),
    Entry(1, 2, EntryKind.COMMAND, b"payload"),
    Entry(2, 3, EntryKind.COMMAND, bytes(40)),
)


def raft_messages() -> Iterator[Message]:
    """One of each kind."""
    yield RequestVote(3, 2, 1, False, True)
    yield VoteReply(3, True, False)
    yield AppendEntries(3, 2, 1, 1, 7, ENTRIES)
    yield AppendReply(3, True, 3, 7, 0, 0)
    yield TimeoutNow(3)


def peer() -> Iterator[bytes]:
    """Streams of frames."""
    said = [
        encode(Hello("n2", "n1", "raft", bytes(32), bytes(32))),
        encode(Welcome(bytes(32))),
        encode(Forward(1, "GET", "/api/v1/pop/queue/q", {"a": "b"}, b"{}", "r", 5000)),
        encode(Reply(1, 200, "application/json", [("Retry-After", "1")], b"[]", "lease")),
        encode(TryAgain(1, True)),
        encode(Withdraw(1, False)),
        encode(Undelivered("lease")),
        encode(NodeReport(False, 1_800_000_000_000_000)),
    ]
    said += [
        encode_snapshot(OfferFrame(9, 2, 4096, "0" * 64, 1024)),
        encode_snapshot(Have(1024)),
        encode_snapshot(Chunk(1024, bytes(32), bytes(32))),
        encode_snapshot(Got(1056)),
        encode_snapshot(Resting()),
        encode_snapshot(Declined("no room")),
    ]
    for framed in said:
        yield b"\3" + framed
    yield b"\7" + b"".join(said)
    for message in raft():
        yield b"\0" + frame(message)


def raft() -> Iterator[bytes]:
    """Messages of the consensus protocol."""
    for message in raft_messages():
        yield encode_message(message)
    yield encode_members(Members(("n1", "n2"), ("n3",)))


def log() -> Iterator[bytes]:
    """Folders that a log has left behind, and one segment as a list of records."""
    for batches in (1, 3, 8):
        disk = SimDisk(random.Random(batches))
        wal, _ = Wal.open(disk, LOG, WalLimits(segment_bytes=600), salt=batches)
        for term in range(1, batches + 1):
            entries = [Entry(term, term, EntryKind.COMMAND, bytes(20 * term))]
            wal.append(HardState(term, "n1"), None, entries)
            wal.sync()
        wal.close()
        names = sorted(disk.names(LOG))[-4:]
        yield pack_files([(name, disk.read(f"{LOG}/{name}")) for name in names])
    records = [
        (HARD_STATE, (1).to_bytes(8, "little") + b"\1n1"),
        (ENTRY, (1).to_bytes(8, "little") * 2 + b"\1payload"),
        (MARK, b""),
        (TRUNCATE, (1).to_bytes(8, "little")),
    ]
    yield b"\1" + b"".join(bytes([kind, len(body)]) + body for kind, body in records)


def http() -> Iterator[bytes]:
    """A conversation with every operation: one request each, and chapters of them in a row."""
    for chapter in CHAPTERS:
        conversation = Conversation()
        for earlier in CHAPTERS[: CHAPTERS.index(chapter)]:
            earlier(conversation.say)
        before = len(conversation.said)
        chapter(conversation.say)
        said = conversation.said[before:]
        for at, request in enumerate(said):
            yield b"\x40" + _request(*request)
            if at % 8 == 0:
                yield b"\x05" + b"".join(_request(*each) for each in said[at : at + 8])
    head = b"POST /api/v1/push HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
    yield b"\0" + head + b"2\r\n{}\r\n0\r\n\r\n"


def _request(method: str, target: str, body: object) -> bytes:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    head = f"{method} {target} HTTP/1.1\r\nHost: a\r\nContent-Length: {len(data)}\r\n\r\n"
    return head.encode() + data


SEEDS: Final[dict[str, Callable[[], Iterator[bytes]]]] = {
    "peer": peer,
    "raft": raft,
    "log": log,
    "http": http,
}
