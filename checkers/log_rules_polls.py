"""The rules of the workload `log` about what was read: behind maybe, never wrong."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from itertools import pairwise

from ..histories.log_ops import ReadEntry, record_id
from .broker_evidence import OpFinding
from .log_facts import LogFacts, Read

OUT_OF_RANGE = "OFFSET_OUT_OF_RANGE"


def judge_poll_order(facts: LogFacts) -> Iterator[OpFinding]:
    """Judge `poll-skip` and `nonmonotonic-poll`, over the polls of one client.

    A client asks one node only and holds its positions itself, also over changes of its
    assignment. So in a key its records only ever go on from where the last ones ended, and a
    high watermark that it was told is never taken back.
    """
    offsets = _known_offsets(facts)
    last: dict[tuple[str, int], tuple[int, Read]] = {}
    marks: dict[tuple[str, int], tuple[int, Read]] = {}
    for read in facts.reads:
        process = str(read.op.invoke.process)
        for entry in read.entries:
            where = (process, entry.key)
            if where in marks and entry.hwm < marks[where][0]:
                yield _went_back(read, entry, *marks[where])
            marks[where] = (entry.hwm, read)
            if not entry.records:
                continue
            first = entry.records[0].offset
            if where in last:
                before, earlier = last[where]
                ops = (*earlier.op.ops, *read.op.ops)
                text = f"client {process} had read key {entry.key} up to offset {before}; its next "
                text += f"poll began at offset {first}"
                if first <= before:
                    yield OpFinding("nonmonotonic-poll", text, ops, (entry.records[0].id,))
                elif _is_between(before, first, offsets[entry.key]):
                    yield OpFinding("poll-skip", text, ops, (entry.records[0].id,))
            last[where] = (entry.records[-1].offset, read)


def _known_offsets(facts: LogFacts) -> dict[int, set[int]]:
    found: dict[int, set[int]] = defaultdict(set)
    for key, offset in facts.holders:
        found[key].add(offset)
    return found


def _is_between(one: int, after: int, known: set[int]) -> bool:
    """Whether a record is known to stand between two offsets."""
    return after > one + 1 and any(one < offset < after for offset in known)


def _went_back(read: Read, entry: ReadEntry, before: int, earlier: Read) -> OpFinding:
    text = (
        f"{read.node} told client {read.op.invoke.process} that key {entry.key} ends before offset "
        f"{entry.hwm}, after it had told it {before}"
    )
    return OpFinding("nonmonotonic-poll", text, (*earlier.op.ops, *read.op.ops))


def judge_within_polls(facts: LogFacts) -> Iterator[OpFinding]:
    """Judge each poll by itself.

    `offset-gap`, `int-poll-skip`, `int-nonmonotonic-poll`, `empty-below-hwm`, `record-mismatch`.
    """
    offsets = _known_offsets(facts)
    for read in facts.reads:
        for entry in read.entries:
            yield from _judge_entry(read, entry, offsets[entry.key])


def _judge_entry(read: Read, entry: ReadEntry, known: set[int]) -> Iterator[OpFinding]:
    ops, key = read.op.ops, entry.key
    found = [record.offset for record in entry.records]
    wanted = list(range(entry.start, entry.start + len(found)))
    names = tuple(record.id for record in entry.records)
    if found and found != wanted:
        text = f"a poll of key {key} from offset {entry.start} returned offsets {_few(found)}"
        yield OpFinding("offset-gap", text, ops, names)
    for one, after in pairwise(found):
        text = f"one poll of key {key} returned offset {after} right after offset {one}"
        if after <= one:
            yield OpFinding("int-nonmonotonic-poll", text, ops, names)
            break
        if _is_between(one, after, known):
            yield OpFinding("int-poll-skip", text, ops, names)
            break
    if not found and not entry.error and entry.hwm > entry.start:
        text = (
            f"a poll of key {key} from offset {entry.start} returned nothing, below the high "
            f"watermark {entry.hwm} that it reported"
        )
        yield OpFinding("empty-below-hwm", text, ops)
    for record in entry.records:
        named = record.key == key and record.value is not None
        if not named or record.id != record_id(key, record.value or 0):
            text = (
                f"offset {record.offset} of key {key} holds id {record.id} with the payload of key "
                f"{record.key}, value {record.value}"
            )
            yield OpFinding("record-mismatch", text, ops, (record.id,))
            break


def _few(offsets: list[int]) -> str:
    shown = ", ".join(map(str, offsets[:8]))
    return f"{shown}, ..." if len(offsets) > 8 else shown
