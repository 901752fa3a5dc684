"""One way to break a legal history for each rule of the contract.

Each takes the notes of a legal run before they are written, and returns whether it found a place to
break. What it changes is legal but for the rule that it is named after, and for the rules that see
the same defect from another side.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise

import msgspec

from atleastonce.histories.attempts import AttemptRecord
from atleastonce.histories.notation import HistoryBuilder, NotedProcess, at
from atleastonce.histories.ops import DISPATCH, READ_DEAD_LETTERS, Json

Break = Callable[[HistoryBuilder, int], bool]


def _late_s(notes: HistoryBuilder) -> float:
    """A time after everything else, with 120 s to the drain, which is moved there."""
    last = ("drain", "stop", "read-dead-letters", "read-failed-jobs")
    end_s = min(op[0] for op in notes.ops if op[3] in last)
    notes.ops = [(op[0] + 120, *op[1:]) if op[3] in last else op for op in notes.ops]
    return end_s


def _records(notes: HistoryBuilder, job: str) -> list[tuple[NotedProcess, AttemptRecord]]:
    found = [(p, record) for p in notes.processes for record in p.records if record.job == job]
    return sorted(found, key=lambda entry: entry[1].t_ns)


def _jobs(notes: HistoryBuilder, choice: int) -> Iterator[str]:
    """All jobs that a dispatch acknowledged, from a chosen one on."""
    told = [op[4] for op in notes.ops if op[3] == DISPATCH and op[1] == "invoke"]
    acked = {op[2] for op in notes.ops if op[3] == DISPATCH and op[1] == "ok"}
    names = sorted(
        {
            str(op[4]["job"])
            for op in notes.ops
            if op[3] == DISPATCH
            and op[1] == "invoke"
            and op[2] in acked
            and isinstance(op[4], dict)
        }
    )
    assert told or not names
    turn = choice % max(1, len(names))
    yield from names[turn:] + names[:turn]


def _drop(notes: HistoryBuilder, job: str) -> None:
    for process in notes.processes:
        process.records = [record for record in process.records if record.job != job]


def _asked(notes: HistoryBuilder, job: str) -> dict[str, Json]:
    return next(
        op[4]
        for op in notes.ops
        if op[3] == DISPATCH
        and op[1] == "invoke"
        and isinstance(op[4], dict)
        and op[4]["job"] == job
    )


def _completed(notes: HistoryBuilder, choice: int) -> Iterator[str]:
    """Jobs that completed once, were confirmed, and were not given up."""
    for job in _jobs(notes, choice):
        records = [record for _, record in _records(notes, job)]
        done = [record for record in records if record.outcome == "completed"]
        acked = {record.run for record in records if record.e == "acked"}
        if len(done) == 1 and done[0].run in acked and job not in notes.given_up:
            yield job


def _last_number(notes: HistoryBuilder, job: str) -> int:
    return max(record.attempt for _, record in _records(notes, job) if record.e == "started")


def _run(notes: HistoryBuilder, t: float, worker: str, job: str, number: int) -> None:
    notes.got(t, worker, [(job, number)])
    notes.start(t + 0.01, worker, job, number)
    notes.end(t + 0.2, worker, job)
    notes.ack(t + 0.3, worker, job)


def lost(notes: HistoryBuilder, choice: int) -> bool:
    for job in _completed(notes, choice):
        _drop(notes, job)
        return True
    return False


def phantom(notes: HistoryBuilder, choice: int) -> bool:
    for job in _completed(notes, choice):
        gone = {op[2] for op in notes.ops if isinstance(op[4], dict) and op[4].get("job") == job}
        notes.ops = [op for op in notes.ops if op[2] not in gone or op[3] != DISPATCH]
        return True
    return False


def duplicate_dispatch(notes: HistoryBuilder, choice: int) -> bool:
    for job in _completed(notes, choice):
        asked = _asked(notes, job)
        if not asked["delay_s"]:
            notes.dispatch(
                _late_s(notes), job, status="queued", p=str(asked["partition"]), resend=True
            )
            return True
    return False


def completed_twice(notes: HistoryBuilder, choice: int) -> bool:
    for job in _completed(notes, choice):
        _run(notes, _late_s(notes), "again", job, _last_number(notes, job) + 1)
        return True
    return False


def overlap(notes: HistoryBuilder, choice: int) -> bool:
    for job in _completed(notes, choice):
        start = next(r for _, r in reversed(_records(notes, job)) if r.e == "started")
        t = (start.t_ns - at(0)) / 1e9 + 0.02
        _run(notes, t, "beside", job, start.attempt + 1)
        return True
    return False


def _raise_numbers(notes: HistoryBuilder, job: str, since_ns: int) -> None:
    for process in notes.processes:
        process.records = [
            msgspec.structs.replace(record, attempt=record.attempt + 1)
            if record.job == job and record.t_ns >= since_ns
            else record
            for record in process.records
        ]


def _lost(notes: HistoryBuilder) -> bool:
    return any(event.kind in ("kill-leader", "kill-supervisor") for event in notes.faults)


def attempt_number(notes: HistoryBuilder, choice: int) -> bool:
    if any(death.popping for death in notes.deaths) or _lost(notes):
        return False
    for job in _completed(notes, choice):
        records = _records(notes, job)
        _raise_numbers(notes, job, records[-4][1].t_ns)
        return records[-4][1].e == "prefetched"
    return False


def uncharged_hand_back(notes: HistoryBuilder, choice: int) -> bool:
    if any(death.popping for death in notes.deaths) or _lost(notes):
        return False
    for job in _jobs(notes, choice):
        received = [entry for entry in _records(notes, job) if entry[1].e == "prefetched"]
        for (process, first), (_, second) in pairwise(received):
            started = any(
                record.job == job
                and record.e in ("started", "gave_up")
                and record.t_ns > first.t_ns
                for record in process.records
            )
            if not started and process.pid in {death.pid for death in notes.deaths}:
                _raise_numbers(notes, job, second.t_ns)
                return True
    return False


def hand_back_late(notes: HistoryBuilder, choice: int) -> bool:
    t = _late_s(notes) + choice % 3
    for number, job in enumerate(("late-a", "late-b", "late-c")):
        notes.dispatch(t, job, p=f"late-{number}")
    _run(notes, t + 0.1, "free", "late-c", 1)
    notes.got(t + 0.1, "doomed", [("late-a", 1), ("late-b", 1)])
    notes.start(t + 0.2, "doomed", "late-a", 1)
    notes.died(t + 0.5, "doomed")
    _run(notes, t + 9.0, "free", "late-b", 1)
    _run(notes, t + 9.5, "free", "late-a", 2)
    return True


def too_few_tries(notes: HistoryBuilder, choice: int) -> bool:
    t = _late_s(notes) + choice % 3
    notes.dispatch(t, "few", tries=3, p="few")
    notes.got(t + 0.1, "few", [("few", 1)])
    notes.start(t + 0.1, "few", "few", 1)
    notes.end(t + 0.2, "few", "few", "threw")
    notes.ack(t + 0.3, "few", "few")
    notes.gave_up(t + 0.3, "few", "few")
    _tell_stores(notes)
    return True


def too_many_tries(notes: HistoryBuilder, choice: int) -> bool:
    t = _late_s(notes) + choice % 3
    notes.dispatch(t, "many", tries=1, backoff_s=[0.1], p="many")
    notes.got(t + 0.1, "many", [("many", 1)])
    notes.start(t + 0.1, "many", "many", 1)
    notes.end(t + 0.2, "many", "many", "threw")
    notes.ack(t + 0.3, "many", "many")
    _run(notes, t + 0.5, "many", "many", 2)
    return True


def both_ended(notes: HistoryBuilder, choice: int) -> bool:
    for job in _completed(notes, choice):
        process, _ = _records(notes, job)[-1]
        if process.name not in notes.alive:
            continue
        notes.gave_up(_late_s(notes), process.name, job)
        _tell_stores(notes)
        return True
    return False


def _tell_stores(notes: HistoryBuilder) -> None:
    """Let the stores hold all that was given up."""
    t = next(op[0] for op in notes.ops if op[3] == READ_DEAD_LETTERS)
    notes.ops = [op for op in notes.ops if not op[3].startswith("read-") and op[3] != "drain"]
    notes.drained(t)


def store_mismatch(notes: HistoryBuilder, choice: int) -> bool:
    if not notes.given_up:
        return False
    gone = notes.given_up[choice % len(notes.given_up)]
    for number, (t, type_, client, f, value) in enumerate(notes.ops):
        if f == READ_DEAD_LETTERS and type_ == "ok" and isinstance(value, dict):
            jobs = value["jobs"]
            assert isinstance(jobs, list)
            kept: list[Json] = [
                entry for entry in jobs if isinstance(entry, list) and entry[0] != gone
            ]
            notes.ops[number] = (t, type_, client, f, {"jobs": kept})
    return True


def early(notes: HistoryBuilder, choice: int) -> bool:
    t = _late_s(notes) + choice % 3
    notes.dispatch(t, "soon", delay_s=2.0, p="soon")
    _run(notes, t + 1.5, "soon", "soon", 1)
    return True


def late(notes: HistoryBuilder, choice: int) -> bool:
    t = _late_s(notes) + choice % 3
    notes.dispatch(t, "now", p="now")
    notes.dispatch(t, "then", p="then")
    _run(notes, t + 0.1, "lazy", "now", 1)
    _run(notes, t + 12.0, "lazy", "then", 1)
    return True


def order(notes: HistoryBuilder, choice: int) -> bool:
    t = _late_s(notes) + choice % 3
    notes.dispatch(t, "older", p="order")
    notes.dispatch(t + 0.1, "younger", p="order")
    _run(notes, t + 0.2, "mixed", "younger", 1)
    _run(notes, t + 0.6, "mixed", "older", 1)
    return True


def timeout_not_enforced(notes: HistoryBuilder, choice: int) -> bool:
    t = _late_s(notes) + choice % 3
    notes.dispatch(t, "long", timeout_s=1.0, p="long")
    notes.got(t + 0.1, "long", [("long", 1)])
    notes.start(t + 0.1, "long", "long", 1)
    notes.end(t + 6.0, "long", "long")
    notes.ack(t + 6.0, "long", "long")
    return True


def process_leaked(notes: HistoryBuilder, choice: int) -> bool:
    t = max(op[0] for op in notes.ops) + 3.0 + choice % 3
    notes.dispatch(t, "leak", "info", p="leak")
    _run(notes, t + 0.1, "leak", "leak", 1)
    return True


def stale_code(notes: HistoryBuilder, choice: int) -> bool:
    t = _late_s(notes) + choice % 3
    notes.ask(t, "restart", {"code": "v2"})
    notes.dispatch(t, "stale", p="stale")
    notes.born("stale", code="v1")
    _run(notes, t + 0.1, "stale", "stale", 1)
    return any(process.records for process in notes.processes[:-1])


def stall(notes: HistoryBuilder, choice: int) -> bool:
    return late(notes, choice)


def pace(notes: HistoryBuilder, choice: int) -> bool:
    t = _late_s(notes) + choice % 3
    for number in range(40):
        notes.dispatch(t, f"slow-{number}", p=f"slow-{number % 8}")
        _run(notes, t + 0.1 + number * 0.7, "only", f"slow-{number}", 1)
    return True


BREAKS: dict[str, Break] = {
    "lost": lost,
    "phantom": phantom,
    "duplicate-dispatch": duplicate_dispatch,
    "completed-twice": completed_twice,
    "overlap": overlap,
    "attempt-number": attempt_number,
    "uncharged-hand-back": uncharged_hand_back,
    "hand-back-late": hand_back_late,
    "too-few-tries": too_few_tries,
    "too-many-tries": too_many_tries,
    "both-ended": both_ended,
    "store-mismatch": store_mismatch,
    "early": early,
    "late": late,
    "order": order,
    "timeout-not-enforced": timeout_not_enforced,
    "process-leaked": process_leaked,
    "stale-code": stale_code,
    "stall": stall,
    "pace": pace,
}
