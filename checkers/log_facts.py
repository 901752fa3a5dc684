"""What a history of the workload `log` says: each send, each poll, and what stands where."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

from ..histories.log_ops import (
    FINAL_READ,
    POLL,
    SEND,
    SEND_AGAIN,
    Poll,
    Polled,
    ReadEntry,
    Send,
    Sent,
    SentRecord,
    record_id,
)
from .broker_evidence import OpEvidence, Paired, decode_value

Place = tuple[int, int]
"""(key, offset)."""


@dataclass(frozen=True, slots=True)
class Append:
    """One send.

    Attributes:
        op: Its records.
        asked: What was asked for.
        offsets: What was answered; empty if it did not end ok, and for a transaction.
    """

    op: Paired
    asked: Send
    offsets: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Read:
    """One answered poll.

    Attributes:
        op: Its records.
        asked: What was asked for.
        entries: What was answered.
    """

    op: Paired
    asked: Poll
    entries: tuple[ReadEntry, ...]

    @property
    def node(self) -> str:
        """Whose copy was read."""
        return self.op.invoke.node or ""


@dataclass(slots=True)
class LogFacts:
    """The whole history.

    Attributes:
        sends: In order of invocation.
        reads: Answered polls, in order of invocation.
        failed_reads: Polls without an answer.
        sent: Which send a record belongs to.
        places: By record, every offset that it was said to have, with an operation that says so.
        holders: By place, every record that it was said to hold, with an operation that says so.
        read: Records that some poll returned, with that poll.
        highest: By key, the highest offset that some poll returned.
        finals: By node whose final reads reached their end: the records that they returned.
    """

    sends: list[Append] = field(default_factory=list)
    reads: list[Read] = field(default_factory=list)
    failed_reads: int = 0
    sent: dict[SentRecord, Append] = field(default_factory=dict)
    places: dict[SentRecord, dict[int, Paired]] = field(default_factory=lambda: defaultdict(dict))
    holders: dict[Place, dict[SentRecord, Paired]] = field(
        default_factory=lambda: defaultdict(dict)
    )
    read: dict[SentRecord, Read] = field(default_factory=dict)
    highest: dict[int, int] = field(default_factory=dict)
    finals: dict[str, set[SentRecord]] = field(default_factory=dict)

    def offset_of(self, record: SentRecord) -> int | None:
        """Return where a record stands, if that is known and beyond doubt."""
        found = self.places.get(record, {})
        return next(iter(found)) if len(found) == 1 else None


def derive_log(pairs: Sequence[Paired], evidence: OpEvidence) -> LogFacts:
    """Read all operations; what cannot be read is damage."""
    facts = LogFacts()
    ended: list[str] = []
    for pair in pairs:
        if pair.invoke.f == SEND:
            _add_send(facts, pair, evidence)
        elif pair.invoke.f == SEND_AGAIN:
            _add_repeat(facts, pair, evidence)
        elif pair.invoke.f == POLL:
            _add_read(facts, pair, evidence)
        elif pair.invoke.f == FINAL_READ and pair.is_ok:
            ended.append(pair.invoke.node or "")
    facts.finals = {node: set() for node in ended}
    for read in facts.reads:
        if read.asked.final and read.node in facts.finals:
            facts.finals[read.node].update(record for _, _, record in records_of(read))
    return facts


def records_of(read: Read) -> list[tuple[ReadEntry, int, SentRecord]]:
    """Return (entry, offset, record) for what a poll returned, where id and payload agree."""
    return [
        (entry, record.offset, SentRecord(record.key, record.value))
        for entry in read.entries
        for record in entry.records
        if record.key is not None and record.value is not None and record.key == entry.key
    ]


def _add_send(facts: LogFacts, pair: Paired, evidence: OpEvidence) -> None:
    asked = decode_value(pair.invoke, Send, evidence)
    if asked is None:
        return
    offsets: tuple[int, ...] = ()
    if pair.is_ok and pair.end is not None:
        answer = decode_value(pair.end, Sent, evidence)
        if answer is None:
            return
        offsets = answer.offsets
        if offsets and len(offsets) != len(asked.records):
            evidence.damage(f"operation {pair.end.index}: {len(offsets)} offsets")
            return
    append = Append(pair, asked, offsets)
    facts.sends.append(append)
    for record in asked.records:
        if record in facts.sent:
            evidence.damage(f"operation {pair.invoke.index}: sends {name_of(record)} again")
        facts.sent[record] = append
    for record, offset in zip(asked.records, offsets, strict=False):
        _place(facts, record, offset, pair)


def _add_repeat(facts: LogFacts, pair: Paired, evidence: OpEvidence) -> None:
    """Take what a repeated send was told: the places that its records have had all along."""
    asked = decode_value(pair.invoke, Send, evidence)
    if asked is None or not pair.is_ok or pair.end is None:
        return
    answer = decode_value(pair.end, Sent, evidence)
    for record, offset in zip(asked.records, answer.offsets if answer else (), strict=False):
        _place(facts, record, offset, pair)


def _add_read(facts: LogFacts, pair: Paired, evidence: OpEvidence) -> None:
    asked = decode_value(pair.invoke, Poll, evidence)
    if not pair.is_ok or pair.end is None:
        facts.failed_reads += 1
        return
    answer = decode_value(pair.end, Polled, evidence)
    if asked is None or answer is None:
        return
    read = Read(pair, asked, answer.entries)
    facts.reads.append(read)
    for entry, offset, record in records_of(read):
        facts.read.setdefault(record, read)
        facts.highest[entry.key] = max(offset, facts.highest.get(entry.key, -1))
        _place(facts, record, offset, pair)


def _place(facts: LogFacts, record: SentRecord, offset: int, op: Paired) -> None:
    facts.places[record].setdefault(offset, op)
    facts.holders[record.key, offset].setdefault(record, op)


def name_of(record: SentRecord) -> str:
    """Return a record's id."""
    return record_id(record.key, record.value)
