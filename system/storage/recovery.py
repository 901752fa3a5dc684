"""Reading a log back after any crash, and refusing it after anything that is no crash.

The rule: every segment that the manifest lists must be there, the sealed ones exactly as they were
sealed. The last one is read until the first record that is not intact. If a segment follows, or a
later header says that the bad record was durable once, or a single flipped bit explains it, the
disk has lost what it had promised: refuse. Otherwise the record was being written when the power
went: a torn tail, to be cut.

What this cannot see: damage of more than one bit to the very last batch when the power also took
the mark behind it, and an active segment that was replaced by an older copy of itself. A checkpoint
of the entries that are missing then refuses the log all the same (see `node.boot`).
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Final

from ..raft.messages import Entry, HardState
from . import format as layout
from .disk import Reader
from .errors import DamagedLogError
from .flips import flipped_bit
from .manifest import NAME, ActiveSegment, Manifest, SealedSegment, decode_manifest

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
        start_index: 1, until entries were deleted or are kept from memory.
        torn_bytes: Bytes of an unfinished write that were cut off the end.
        where: The active segment, as the operator knows it.
        end: Where its last intact record ends.
    """

    hard_state: HardState
    entries: list[Entry]
    start_index: int
    torn_bytes: int
    where: str = field(default="", compare=False)
    end: int = field(default=0, compare=False)

    @property
    def last_index(self) -> int:
        """Index of the last entry, whether or not it is among `entries`."""
        return self.start_index + len(self.entries) - 1


@dataclass(slots=True)
class Tail:
    """Where the log ends, and what about it is not proved durable.

    Attributes:
        path: The last segment.
        active: What the manifest has to say about it.
        sealed: The segments before it.
        highest_index: The highest index of an entry in it or before it.
        chain: The crc of its last record.
        next_seq: What the next record will carry.
        end: Where the next record goes.
        size: The file's size; above `end` when the tail is torn.
        synced: The highest mark that was read.
        unproved: Bytes from the first record after `synced` up to `end`.
        unproved_payload: Whether one of those records is more than a mark.
    """

    path: str
    active: ActiveSegment
    sealed: tuple[SealedSegment, ...]
    highest_index: int
    chain: int
    next_seq: int
    end: int
    size: int
    synced: int
    unproved: bytes
    unproved_payload: bool


def read_manifest(disk: Reader, directory: str, names: list[str]) -> Manifest | None:
    """The manifest of a log with these segments; None when it was never finished.

    Raises:
        DamagedLogError: It is missing although it was, or cannot be read.
    """
    path = f"{directory}/{NAME}"
    try:
        data = disk.read(path)
    except FileNotFoundError:
        if len(names) > 1 or (names and names[0] != layout.segment_name(1)):
            reason = f"it is missing, although {names[0]} is there"
            raise DamagedLogError(disk.where(path), 0, reason, _REMEDY) from None
        return None
    try:
        return decode_manifest(data)
    except ValueError as error:
        remedy = _VERSION_REMEDY if "version" in str(error) else _REMEDY
        raise DamagedLogError(disk.where(path), 0, str(error), remedy) from None


@dataclass(slots=True)
class Replay:
    """Reads segments in order; a subclass may weaken one rule, which tests do.

    Attributes:
        disk: Where the files are.
        directory: The log's, below the disk's root.
        checkpoint_index: Entries up to this one are in a checkpoint.
        tail_bytes: So many of their bytes are kept in memory all the same, for slow followers.
    """

    disk: Reader
    directory: str
    checkpoint_index: int = 0
    tail_bytes: int = 1 << 62
    hard_state: HardState = field(default_factory=lambda: HardState(0, None))
    entries: deque[Entry] = field(default_factory=deque)
    last_index: int = 0
    highest_index: int = 0
    seq: int = 1
    chain: int = 0
    synced: int = 0
    last_payload_seq: int = 0
    takes_damage_for_torn: bool = False
    _base_index: int = 0
    _old_bytes: int = 0
    _sealed: list[SealedSegment] = field(default_factory=list)

    def run(self, names: list[str], manifest: Manifest | None) -> tuple[Recovered, Tail]:
        """Read the log's segments.

        Args:
            names: What is there: sorted, at least one, nothing older than the manifest's first.
            manifest: What must be there; None for a log whose first one was never written.

        Raises:
            DamagedLogError: The log holds what no crash can explain.
        """
        if manifest is not None:
            present = set(names)
            for name in manifest.names:
                if name not in present:
                    reason = f"the segment is missing, although {NAME} lists it"
                    raise self._damaged(f"{self.directory}/{name}", 0, reason)
            first = manifest.first
            self.seq, self.chain = first.first_seq, first.seed
            self.last_index = self.highest_index = first.base_index
        sealed = {segment.name: segment for segment in manifest.sealed} if manifest else {}
        tail: Tail | None = None
        for position, name in enumerate(names):
            if tail is not None and names[position - 1] not in sealed:
                self._seal(tail)
            following = names[position + 1 : position + 2]
            tail = self._segment(name, following, sealed.get(name))
        assert tail is not None, f"no segments among {names}"
        if manifest is None and self.last_payload_seq > 1:
            reason = "it is missing, although the log holds records"
            raise self._damaged(f"{self.directory}/{NAME}", 0, reason)
        tail.sealed = tuple(self._sealed)
        entries = list(self.entries)
        return (
            Recovered(
                self.hard_state,
                entries,
                self.last_index + 1 - len(entries),
                tail.size - tail.end,
                self.disk.where(tail.path),
                tail.end,
            ),
            tail,
        )

    def _segment(self, name: str, following: list[str], sealed: SealedSegment | None) -> Tail:
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
                self._take(record, is_first=offset == layout.HEADER.size)
            except ValueError as error:
                raise self._damaged(path, offset, str(error)) from None
            offsets.append(offset)
            offset = record.end
        if not offsets:
            raise self._damaged(path, offset, "the segment has no base record")
        if sealed is not None:
            self._compare(path, sealed, len(data), offset)
        unproved = min(max(self.synced + 1 - first_seq, 0), len(offsets))
        start = offsets[unproved] if unproved < len(offsets) else offset
        return Tail(
            path=path,
            active=ActiveSegment(name, first_seq, self._base_index, seed),
            sealed=(),
            highest_index=self.highest_index,
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
        if self.chain and header.seed != self.chain:
            raise self._damaged(path, 0, "the segment does not continue the one before it")
        self.chain = header.seed
        self.synced = max(self.synced, header.synced)
        return header.seed

    def _seal(self, tail: Tail) -> None:
        """A crash came before the manifest could say that this segment was sealed."""
        highest_index = tail.highest_index
        sealed = tail.active.seal(tail.next_seq - 1, highest_index, tail.size, tail.chain)
        self._sealed.append(sealed)

    def _compare(self, path: str, sealed: SealedSegment, size: int, end: int) -> None:
        found = (self.seq - 1, self.chain, size)
        if found != (sealed.last_seq, sealed.crc, sealed.bytes):
            reason = (
                f"the segment ends with record {self.seq - 1} at {size} bytes; it was sealed with "
                f"record {sealed.last_seq} at {sealed.bytes} bytes"
            )
            raise self._damaged(path, end, reason)
        self._sealed.append(sealed)

    def _damaged(
        self, path: str, offset: int, reason: str, remedy: str = _REMEDY
    ) -> DamagedLogError:
        return DamagedLogError(self.disk.where(path), offset, reason, remedy)

    def decode(self, data: bytes, offset: int) -> layout.Record | str:
        """The next record, or why there is none."""
        return layout.decode_record(data, offset, self.seq, self.chain)

    def _take(self, record: layout.Record, is_first: bool) -> None:
        if is_first != (record.kind == layout.BASE):
            raise ValueError("a segment must begin with a base record, and have no other one")
        if record.kind == layout.ENTRY:
            self._take_entry(layout.decode_entry(record.payload))
        elif record.kind == layout.HARD_STATE:
            self.hard_state = layout.decode_hard_state(record.payload)
        elif record.kind == layout.TRUNCATE:
            self._cut(layout.decode_truncate(record.payload))
        elif record.kind == layout.BASE:
            self._take_base(layout.decode_base(record.payload))
        elif record.kind != layout.MARK:
            raise ValueError(f"record {self.seq} has the unknown type {record.kind}")
        if record.kind != layout.MARK:
            self.last_payload_seq = self.seq
        self.synced = max(self.synced, record.synced)
        self.chain = record.crc
        self.seq += 1

    def _take_entry(self, entry: Entry) -> None:
        if entry.index != self.last_index + 1:
            raise ValueError(f"entry {entry.index} follows entry {self.last_index}")
        self.last_index = entry.index
        self.highest_index = max(self.highest_index, entry.index)
        entries = self.entries
        entries.append(entry)
        if entry.index <= self.checkpoint_index:
            self._old_bytes += len(entry.data)
            while entries and self._old_bytes > self.tail_bytes:
                self._old_bytes -= len(entries.popleft().data)

    def _cut(self, index: int) -> None:
        if not 1 <= index <= self.last_index + 1:
            raise ValueError(f"a cut from entry {index} follows entry {self.last_index}")
        while self.entries and self.entries[-1].index >= index:
            dropped = self.entries.pop()
            if dropped.index <= self.checkpoint_index:
                self._old_bytes -= len(dropped.data)
        self.last_index = index - 1

    def _take_base(self, base: layout.Base) -> None:
        if base.is_reset:
            # Nothing before is needed any longer, whether or not its files are there.
            self._sealed.clear()
            self.entries.clear()
            self._old_bytes = 0
            self.last_index = self.highest_index = base.last_index
        elif base.last_index != self.last_index:
            raise ValueError(
                f"the segment follows entry {base.last_index}, the log before it ends with entry "
                f"{self.last_index}"
            )
        self._base_index = base.last_index
        self.hard_state = base.hard_state

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
        if self.seq <= self.synced:
            reason = f"{reason}, although its segment says that it was durable"
            raise self._damaged(path, offset, reason)
        found = self.voucher(data, offset, seed)
        if found is not None:
            reason = f"{reason}, although record {found[0]} says that {found[1]} was durable"
            raise self._damaged(path, offset, reason)
        bit = self.flipped(data, offset)
        if bit is not None:
            reason = f"{reason}, because bit {bit & 7} of byte {bit >> 3} is flipped"
            raise self._damaged(path, offset, reason)

    def flipped(self, data: bytes, offset: int) -> int | None:
        """The single bit whose flip made the record bad, where nothing else explains it."""
        return flipped_bit(data, offset, self.seq, self.chain)
