"""The rules of the workload `log` about what was sent: nothing lost, doubled, torn or reordered."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from graphlib import CycleError, TopologicalSorter
from itertools import pairwise

from ..histories.log_ops import SentRecord
from .broker_evidence import OpFinding
from .log_facts import Append, LogFacts, Read, name_of, records_of


def judge_lost_write(facts: LogFacts) -> Iterator[OpFinding]:
    """Judge `lost-write`: acknowledged, below what was read of its key, and never read itself."""
    for record, append in _acknowledged(facts):
        offset = facts.offset_of(record)
        highest = facts.highest.get(record.key, -1)
        if record not in facts.read and offset is not None and offset < highest:
            text = (
                f"record {name_of(record)} was acknowledged at offset {offset}; key {record.key} "
                f"was read up to offset {highest}, and nobody ever read it"
            )
            yield OpFinding("lost-write", text, append.op.ops, (name_of(record),))


def judge_unseen(facts: LogFacts, lost: set[SentRecord]) -> Iterator[OpFinding]:
    """Judge `unseen`: acknowledged, and missing where a node was read to its end."""
    for record, append in _acknowledged(facts):
        missing = [node for node, seen in facts.finals.items() if record not in seen]
        if missing and record not in lost:
            text = (
                f"record {name_of(record)} was acknowledged, and the final reads of "
                f"{', '.join(missing)} do not have it"
            )
            yield OpFinding("unseen", text, append.op.ops, (name_of(record),))


def _acknowledged(facts: LogFacts) -> Iterator[tuple[SentRecord, Append]]:
    for append in facts.sends:
        if append.op.is_ok:
            for record in append.asked.records:
                yield record, append


def judge_duplicate(facts: LogFacts) -> Iterator[OpFinding]:
    """Judge `duplicate`."""
    for record, found in facts.places.items():
        if len(found) > 1:
            offsets = " and ".join(str(offset) for offset in found)
            ops = tuple(op for pair in found.values() for op in pair.ops)
            text = f"record {name_of(record)} stands at offsets {offsets} of key {record.key}"
            yield OpFinding("duplicate", text, ops, (name_of(record),))


def judge_inconsistent(facts: LogFacts) -> Iterator[OpFinding]:
    """Judge `inconsistent-offsets`, over all nodes."""
    for (key, offset), found in facts.holders.items():
        if len(found) > 1:
            names = tuple(name_of(record) for record in found)
            ops = tuple(op for pair in found.values() for op in pair.ops)
            text = f"offset {offset} of key {key} held {' and '.join(names)}"
            yield OpFinding("inconsistent-offsets", text, ops, names)


def judge_g1a(facts: LogFacts) -> Iterator[OpFinding]:
    """Judge `G1a`: a record whose send certainly failed, or that nobody sent, was read."""
    for record, read in facts.read.items():
        append = facts.sent.get(record)
        if append is not None and not append.op.is_fail:
            continue
        why = "whose send certainly failed" if append else "which nobody had sent"
        ops = (*(append.op.ops if append else ()), *read.op.ops)
        yield OpFinding("G1a", f"record {name_of(record)} was read, {why}", ops, (name_of(record),))


def judge_send_order(facts: LogFacts) -> Iterator[OpFinding]:
    """Judge `nonmonotonic-send`: a client's acknowledged sends to a key keep their order."""
    last: dict[tuple[str, int], tuple[int, SentRecord, Append]] = {}
    for append in facts.sends:
        if not append.op.is_ok:
            continue
        process = str(append.op.invoke.process)
        for record in append.asked.records:
            offset = facts.offset_of(record)
            if offset is None:
                continue
            before = last.get((process, record.key))
            if before is not None and before[2] is not append and before[0] >= offset:
                text = (
                    f"client {process} sent {name_of(record)} after {name_of(before[1])} was "
                    f"acknowledged at offset {before[0]}, and it stands at offset {offset}"
                )
                ops = (*before[2].op.ops, *append.op.ops)
                yield OpFinding("nonmonotonic-send", text, ops, (name_of(record),))
            last[process, record.key] = (offset, record, append)


def judge_within_transactions(facts: LogFacts) -> Iterator[OpFinding]:
    """Judge `int-nonmonotonic-send` and `int-send-skip`: a transaction is one entry of the log."""
    for append in facts.sends:
        offsets: dict[int, list[tuple[int, SentRecord]]] = defaultdict(list)
        for record in append.asked.records:
            offset = facts.offset_of(record)
            if offset is not None:
                offsets[record.key].append((offset, record))
        for found in offsets.values():
            for (offset, record), (after, other) in pairwise(found):
                if after == offset + 1:
                    continue
                rule = "int-nonmonotonic-send" if after <= offset else "int-send-skip"
                text = (
                    f"one transaction sent {name_of(other)} right after {name_of(record)}; they "
                    f"stand at offsets {after} and {offset}"
                )
                yield OpFinding(rule, text, append.op.ops, (name_of(record), name_of(other)))


def judge_torn(facts: LogFacts) -> Iterator[OpFinding]:
    """Judge `torn`, for transactions that were acknowledged or whose outcome is unknown.

    A node's final reads have all of it or nothing. And each poll is a look at one moment: if it
    returned one record of a transaction, every other one lies below the high watermark that it
    reported.
    """
    torn: set[int] = set()
    for append in facts.sends:
        records = append.asked.records
        for node, seen in facts.finals.items():
            have = [record for record in records if record in seen]
            if append.asked.txn and 0 < len(have) < len(records) and not append.op.is_fail:
                torn.add(append.op.invoke.index)
                yield _torn(append, have, f"the final reads of {node}", None)
                break
    for read in facts.reads:
        marks = {entry.key: entry.hwm for entry in read.entries if not entry.error}
        for append in _seen_in(read, facts):
            index = append.op.invoke.index
            if index not in torn and (have := _torn_at(read, marks, append, facts)):
                torn.add(index)
                yield _torn(append, have, f"one poll at {read.node}", read)


def _seen_in(read: Read, facts: LogFacts) -> Sequence[Append]:
    """Return the transactions of several records of which a poll returned any."""
    found: dict[int, Append] = {}
    for _, _, record in records_of(read):
        append = facts.sent.get(record)
        if append is not None and append.asked.txn and len(append.asked.records) > 1:
            found[append.op.invoke.index] = append
    return tuple(found.values())


def _torn_at(
    read: Read, marks: dict[int, int], append: Append, facts: LogFacts
) -> list[SentRecord]:
    """Return what a poll had of a transaction, if it shows that another part was not there yet.

    `marks` holds the high watermarks that the poll reported, by key.
    """
    missing = False
    for record in append.asked.records:
        offset, mark = facts.offset_of(record), marks.get(record.key)
        missing = missing or (offset is not None and mark is not None and offset >= mark)
    if not missing:
        return []
    had = {record for _, _, record in records_of(read)}
    return [record for record in append.asked.records if record in had]


def _torn(append: Append, have: Sequence[SentRecord], where: str, read: Read | None) -> OpFinding:
    records = append.asked.records
    text = (
        f"a transaction of {len(records)} records was visible in part: {where} had "
        f"{', '.join(map(name_of, have))} of {', '.join(map(name_of, records))}"
    )
    ops = (*append.op.ops, *(read.op.ops if read else ()))
    return OpFinding("torn", text, ops, tuple(map(name_of, records)))


def judge_g0(facts: LogFacts) -> Iterator[OpFinding]:
    """Judge `G0`: one order of all transactions explains the order in every partition."""
    sorter: TopologicalSorter[int] = TopologicalSorter()
    sends = {append.op.invoke.index: append for append in facts.sends}
    by_key: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for record, append in facts.sent.items():
        offset = facts.offset_of(record)
        if offset is not None:
            by_key[record.key].append((offset, append.op.invoke.index))
    for found in by_key.values():
        for (_, one), (_, after) in pairwise(sorted(found)):
            if one != after:
                sorter.add(after, one)
    try:
        sorter.prepare()
    except CycleError as error:
        cycle: list[int] = error.args[1]
        ops = tuple(op for index in cycle[:-1] for op in sends[index].op.ops)
        text = f"{len(cycle) - 1} transactions follow each other in a circle over their partitions"
        yield OpFinding("G0", text, ops)
