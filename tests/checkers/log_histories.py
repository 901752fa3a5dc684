"""Histories of the workload `log`: a small log that keeps its word, and how to write others."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from hypothesis import strategies as st

from atleastonce.histories.log_ops import (
    CRASH,
    FINAL_READ,
    POLL,
    SEND,
    FinalRead,
    Poll,
    Polled,
    ReadEntry,
    ReadRecord,
    Send,
    Sent,
    SentRecord,
    record_id,
)

from .op_histories import OpHistory

NODES = ("n1", "n2", "n3")
KEYS = range(4)
CHUNK = 3
Log = dict[int, list[SentRecord]]


@dataclass(frozen=True)
class Step:
    """One operation of one client at one node."""

    gap_s: float
    kind: Literal["send", "send", "poll", "poll", "crash"]
    node: int
    keys: tuple[int, ...]
    lag: int
    before_s: float
    after_s: float
    fate: Literal["ok", "ok", "ok", "unknown-done", "unknown-not", "fail"]


STEPS = st.lists(
    st.builds(
        Step,
        gap_s=st.sampled_from([0.01, 0.3]),
        kind=st.sampled_from(["send", "send", "poll", "poll", "crash"]),
        node=st.integers(0, 2),
        keys=st.lists(st.sampled_from(list(KEYS)), min_size=1, max_size=4).map(tuple),
        lag=st.integers(0, 5),
        before_s=st.sampled_from([0.001, 0.005]),
        after_s=st.sampled_from([0.001, 0.004]),
        fate=st.sampled_from(["ok", "ok", "ok", "unknown-done", "unknown-not", "fail"]),
    ),
    min_size=1,
    max_size=50,
)


class Model:
    """One log of transactions; each node shows a prefix of it that only grows."""

    def __init__(self, steps: Sequence[Step], txn: bool) -> None:
        self.history = OpHistory()
        self._steps = steps
        self._txn = txn
        self._entries: list[tuple[SentRecord, ...]] = []
        self._shown = dict.fromkeys(NODES, 0)
        self._next: dict[int, int] = defaultdict(int)
        self._positions: dict[str, dict[int, int]] = {}
        self._lives = dict.fromkeys(NODES, 0)

    def run(self) -> OpHistory:
        now_s = 1.0
        for step in self._steps:
            now_s += step.gap_s
            if step.kind == "send":
                self._send(step, now_s)
            elif step.kind == "poll":
                self._poll(step, now_s)
            else:
                self._crash(step, now_s)
        write_final_reads(self.history, self._log(len(self._entries)))
        return self.history

    def _log(self, until: int) -> Log:
        log: Log = {key: [] for key in KEYS}
        for entry in self._entries[:until]:
            for record in entry:
                log[record.key].append(record)
        return log

    def _process(self, node: str) -> str:
        return f"{node}/{self._lives[node]}"

    def _send(self, step: Step, now_s: float) -> None:
        keys = step.keys if self._txn else step.keys[:1]
        records = []
        for key in keys:
            records.append(SentRecord(key, self._next[key]))
            self._next[key] += 1
        log, offsets = self._log(len(self._entries)), []
        if step.fate not in ("fail", "unknown-not"):
            for record in records:
                offsets.append(len(log[record.key]))
                log[record.key].append(record)
            self._entries.append(tuple(records))
        node = NODES[step.node]
        asked = Send(records=tuple(records), txn=self._txn)
        answer = Sent() if self._txn else Sent(offsets=tuple(offsets))
        span = (now_s - step.before_s, now_s + step.after_s)
        process = self._process(node)
        if step.fate == "ok":
            self.history.op(SEND, *span, asked, answer, "ok", node, process)
        elif step.fate == "fail":
            self.history.op(SEND, *span, asked, None, "fail", node, process)
        else:
            self.history.op(SEND, *span, asked, None, "info", node, process)
            self._lives[node] += 1

    def _poll(self, step: Step, now_s: float) -> None:
        node = NODES[step.node]
        self._shown[node] = max(self._shown[node], len(self._entries) - step.lag)
        log = self._log(self._shown[node])
        held = self._positions.setdefault(self._process(node), dict.fromkeys(KEYS, 0))
        keys = sorted(set(step.keys))
        positions = tuple((key, held[key]) for key in keys)
        entries = tuple(read(log, key, start, CHUNK) for key, start in positions)
        asked = Poll(positions=positions, wait_ms=0)
        span = (now_s - step.before_s, now_s + step.after_s)
        if step.fate == "fail":
            self.history.op(POLL, *span, asked, None, "fail", node, self._process(node))
            return
        answer = Polled(entries=entries)
        self.history.op(POLL, *span, asked, answer, "ok", node, self._process(node))
        for entry in entries:
            held[entry.key] += len(entry.records)

    def _crash(self, step: Step, now_s: float) -> None:
        node = NODES[step.node]
        span = (now_s - step.before_s, now_s + step.after_s)
        self.history.op(CRASH, *span, None, None, "info", node, self._process(node))
        self._lives[node] += 1


def read(log: Log, key: int, start: int, most: int) -> ReadEntry:
    """What a node with this log answers."""
    there = log.get(key, [])
    records = tuple(
        row(start + place, record) for place, record in enumerate(there[start : start + most])
    )
    return ReadEntry(key=key, start=start, hwm=len(there), records=records)


def row(offset: int, record: SentRecord) -> ReadRecord:
    return ReadRecord(offset, record_id(record.key, record.value), record.key, record.value)


def write_final_reads(history: OpHistory, log: Log, nodes: Sequence[str] = NODES) -> None:
    """Every node's final reads: all of the log."""
    for node in nodes:
        process = f"{node}/final"
        history.op(FINAL_READ, 100, 110, None, FinalRead(records=0, missing=0), "ok", node)
        positions = tuple((key, 0) for key in log)
        entries = tuple(read(log, key, 0, 1000) for key in log)
        asked = Poll(positions=positions, wait_ms=0, final=True)
        history.op(POLL, 101, 102, asked, Polled(entries=entries), "ok", node, process)


def sent(
    history: OpHistory,
    at_s: float,
    *records: tuple[int, int],
    offsets: tuple[int, ...] = (),
    process: str | None = None,
    type_: Literal["ok", "fail", "info"] = "ok",
) -> None:
    """One send; a transaction if it has several records or no offset."""
    asked = Send(records=tuple(SentRecord(*record) for record in records), txn=not offsets)
    answer = Sent(offsets=offsets) if type_ == "ok" else None
    history.op(SEND, at_s, at_s + 0.01, asked, answer, type_, "n1", process)


def polled(
    history: OpHistory,
    at_s: float,
    *entries: ReadEntry,
    process: str | None = None,
    node: str = "n1",
    final: bool = False,
) -> None:
    """One answered poll."""
    positions = tuple((entry.key, entry.start) for entry in entries)
    asked = Poll(positions=positions, wait_ms=0, final=final)
    history.op(POLL, at_s, at_s + 0.01, asked, Polled(entries=entries), "ok", node, process)


def entry(key: int, start: int, hwm: int, *records: tuple[int, int], error: str = "") -> ReadEntry:
    """An entry whose records are given as (offset, value)."""
    rows = tuple(row(offset, SentRecord(key, value)) for offset, value in records)
    return ReadEntry(key=key, start=start, hwm=hwm, records=rows, error=error)


def finally_read(history: OpHistory, key: int, *values: int) -> None:
    """Every node's final reads have these values of a key, from offset 0 on."""
    for node in NODES:
        rows = tuple(enumerate(values))
        polled(history, 105, entry(key, 0, len(rows), *rows), node=node, final=True)
