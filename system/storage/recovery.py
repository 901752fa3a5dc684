"""Reading a log back after any crash, and refusing it after anything that is no crash.

The rule: read until the first record that is not intact. If a segment follows, or a later header
says that the bad record was durable once, the disk has lost what it had promised: refuse. If
nothing says so, the record was being written when the power went: a torn tail, to be cut.

What this cannot see: damage to the very last batch when the power also took the mark behind it,
and a last segment that vanished whole or was replaced by an older copy of itself.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from ..raft.messages import Entry, HardState
from . import format as layout
from .disk import Reader
from .errors import DamagedLogError

_REMEDY: Final = (
    "restore the file from a copy of this node's disk; without one, keep this node stopped while "
    "the others form a majority, and replace it by a node of another name. Never restart it with "
    "an emptied directory: it would break the votes and entries that it has promised"
)
_VERSION_REMEDY: Final = "start the version of the program that wrote it"


@dataclass(frozen=True, slots=True)
class Recovered:
    """What a log held when it was opened.

    Attributes:
        hard_state: The last term and vote, or term 0 without a vote.
        entries: In order, without gaps; the first has index `start_index`.
        start_index: 1, until logs are compacted.
        torn_bytes: Bytes of an unfinished write that were cut off the end.
    """

    hard_state: HardState
    entries: list[Entry]
    start_index: int
    torn_bytes: int


@dataclass(slots=True)
class Tail:
    """Where the log ends, and what about it is not proved durable.

    Attributes:
        path: The last segment.
        seed: Its seed.
        chain: The crc of its last record, or its seed.
        next_seq: What the next record will carry.
        end: Where the next record goes.
        size: The file's size; above `end` when the tail is torn.
        synced: The highest mark that was read.
        unproved: Bytes from the first record after `synced` up to `end`.
        unproved_payload: Whether one of those records is more than a mark.
    """

    path: str
    seed: int
    chain: int
    next_seq: int
    end: int
    size: int
    synced: int
    unproved: bytes
    unproved_payload: bool


@dataclass(slots=True)
class Replay:
    """Reads segments in order; a subclass may weaken one rule, which tests do."""

    disk: Reader
    directory: str
    hard_state: HardState = field(default_factory=lambda: HardState(0, None))
    entries: list[Entry] = field(default_factory=list)
    seq: int = 1
    chain: int = 0
    synced: int = 0
    last_payload_seq: int = 0
    takes_damage_for_torn: bool = False

    def run(self, names: list[str]) -> tuple[Recovered, Tail]:
        """Read `names`, which are sorted and at least one.

        Raises:
            DamagedLogError: The log holds what no crash can explain.
        """
        tail: Tail | None = None
        for position, name in enumerate(names):
            tail = self._segment(name, names[position + 1 : position + 2])
        assert tail is not None, f"no segments among {names}"
        recovered = Recovered(self.hard_state, self.entries, 1, tail.size - tail.end)
        return recovered, tail

    def _segment(self, name: str, following: list[str]) -> Tail:
        path = f"{self.directory}/{name}"
        data = self.disk.read(path)
        seed = self._header(path, name, data)
        first_seq, offset = self.seq, layout.HEADER.size
        offsets = []
        while offset < len(data):
            record = self.decode(data, offset)
            if isinstance(record, str):
                self._judge(path, data, offset, seed, record, following)
                break
            try:
                self._take(record)
            except ValueError as error:
                raise self._damaged(path, offset, str(error)) from None
            offsets.append(offset)
            offset = record.end
        unproved = min(self.synced + 1 - first_seq, len(offsets))
        start = offsets[unproved] if unproved < len(offsets) else offset
        return Tail(
            path=path,
            seed=seed,
            chain=self.chain,
            next_seq=self.seq,
            end=offset,
            size=len(data),
            synced=self.synced,
            unproved=data[start:offset],
            unproved_payload=self.last_payload_seq > self.synced,
        )

    def _header(self, path: str, name: str, data: bytes) -> int:
        try:
            header = layout.decode_segment_header(data)
        except ValueError as error:
            remedy = _VERSION_REMEDY if "version" in str(error) else _REMEDY
            raise self._damaged(path, 0, str(error), remedy) from None
        begins = f"the segment begins at record {header.first_seq}"
        if layout.segment_name(header.first_seq) != name:
            raise self._damaged(path, 0, f"{begins}, unlike its name")
        if header.first_seq != self.seq:
            reason = f"{begins} where record {self.seq} should follow; a segment is missing or cut"
            raise self._damaged(path, 0, reason)
        if self.seq > 1 and header.seed != self.chain:
            raise self._damaged(path, 0, "the segment does not continue the one before it")
        self.chain = header.seed
        self.synced = max(self.synced, header.synced)
        return header.seed

    def _damaged(
        self, path: str, offset: int, reason: str, remedy: str = _REMEDY
    ) -> DamagedLogError:
        return DamagedLogError(self.disk.where(path), offset, reason, remedy)

    def decode(self, data: bytes, offset: int) -> layout.Record | str:
        """The next record, or why there is none."""
        return layout.decode_record(data, offset, self.seq, self.chain)

    def _take(self, record: layout.Record) -> None:
        if record.kind == layout.ENTRY:
            entry = layout.decode_entry(record.payload)
            if entry.index != len(self.entries) + 1:
                raise ValueError(f"entry {entry.index} follows entry {len(self.entries)}")
            self.entries.append(entry)
        elif record.kind == layout.HARD_STATE:
            self.hard_state = layout.decode_hard_state(record.payload)
        elif record.kind == layout.TRUNCATE:
            index = layout.decode_truncate(record.payload)
            if not 1 <= index <= len(self.entries) + 1:
                raise ValueError(f"a cut from entry {index} follows entry {len(self.entries)}")
            del self.entries[index - 1 :]
        elif record.kind != layout.MARK:
            raise ValueError(f"record {self.seq} has the unknown type {record.kind}")
        if record.kind != layout.MARK:
            self.last_payload_seq = self.seq
        self.synced = max(self.synced, record.synced)
        self.chain = record.crc
        self.seq += 1

    def voucher(self, data: bytes, offset: int, seed: int) -> tuple[int, int] | None:
        """A later header that says the bad record at `offset` was durable, as (seq, synced)."""
        return layout.find_voucher(data, offset, seed, self.seq)

    def _judge(
        self, path: str, data: bytes, offset: int, seed: int, reason: str, following: list[str]
    ) -> None:
        if self.takes_damage_for_torn:
            return
        if following:
            reason = f"{reason}, although {following[0]} follows"
            raise self._damaged(path, offset, reason)
        found = self.voucher(data, offset, seed)
        if found is not None:
            reason = f"{reason}, although record {found[0]} says that {found[1]} was durable"
            raise self._damaged(path, offset, reason)
