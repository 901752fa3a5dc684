"""The whole run as the exact rules see it: facts, windows, stores, and jobs by number."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Final

import numpy as np

from ..histories.folder import RunRecords
from ..histories.ops import READ_DEAD_LETTERS, READ_FAILED_JOBS, Json
from .contract import Bounds, Contract
from .facts import NEVER_NS, RAN, UNSTARTED, Facts
from .jobs import Delivery, Dispatch, GivenUp, Job, StoredJob
from .starvation import Starvation
from .windows import NS, FaultWindow, Windows, first_touching


class Stores:
    """The dead letters and the failed-job store as read back at the end.

    Attributes:
        letters: Entries of the dead-letter queue by job number; None if never read.
        rows: Entries of the failed-job store by job number; None if never read.
        strangers: Ids that stand in a store and that no record names.
    """

    def __init__(self, run: RunRecords):
        self.strangers: list[tuple[str, str]] = []
        self.letters = self._read(run, READ_DEAD_LETTERS)
        self.rows = self._read(run, READ_FAILED_JOBS)

    def _read(self, run: RunRecords, f: str) -> Mapping[int, tuple[StoredJob, ...]] | None:
        value = next((op.value for op in reversed(run.ops) if op.f == f and op.type == "ok"), None)
        if value is None:
            return None
        found: dict[int, tuple[StoredJob, ...]] = defaultdict(tuple)
        for name, stored in _entries(value):
            number = run.attempts.jobs.find(name)
            if number is None:
                self.strangers.append((f, name))
            else:
                found[number] += (stored,)
        return dict(found)


def _entries(value: Json) -> list[tuple[str, StoredJob]]:
    jobs = value.get("jobs") if isinstance(value, dict) else None
    entries = []
    for entry in jobs if isinstance(jobs, list) else []:
        cells = entry if isinstance(entry, list) else [entry]
        texts = ["" if cell is None else str(cell) for cell in (*cells, None, None)]
        entries.append((texts[0], StoredJob(texts[1], texts[2])))
    return entries


class World:
    """What the exact rules may ask about the whole run.

    Attributes:
        run: All records.
        facts: Facts that follow from them.
        contract: The contract.
        windows: Fault windows.
        stores: What was read back at the end.
        starvation: When the machine did not let the system run.
    """

    def __init__(self, run: RunRecords, facts: Facts, contract: Contract):
        self.run = run
        self.facts = facts
        self.contract = contract
        self.windows = Windows(run.faults, contract, facts.end_ns)
        self.stores = Stores(run)
        self.starvation = starvation_of(run, contract.bounds)
        self._dispatch_order = np.argsort(run.dispatches.job, kind="stable")
        self._dispatch_jobs = run.dispatches.job[self._dispatch_order]
        self._given_up: dict[int, list[GivenUp]] = defaultdict(list)
        table = run.attempts
        for row, told in table.gave_up.items():
            entry = GivenUp(row, int(table.t_ns[row]), int(table.process[row]), told)
            self._given_up[int(table.job[row])].append(entry)
        self._handed_back = {
            name
            for hand_back in run.hand_backs
            if hand_back.result != "skipped"
            for name in (*hand_back.unstarted, *hand_back.ran)
        }
        self.unread = UnreadBatches(facts, contract)
        self._last_start_ns: dict[int, int] = {}

    def ns(self, bound: str) -> int:
        """Return a bound of the contract in ns."""
        return round(float(getattr(self.contract.bounds, bound)) * NS)

    def death_ns(self, delivery: Delivery) -> int:
        """Death of a delivery's process; `NEVER_NS` where none is known."""
        return int(self.facts.death_ns[delivery.process])

    def was_handed_back(self, job: Job) -> bool:
        """Whether a worker that is dead held it unstarted, or the supervisor gave it back."""
        return job.name in self._handed_back or any(
            delivery.kind == UNSTARTED and self.death_ns(delivery) != NEVER_NS
            for delivery in job.deliveries
        )

    def ack_could_fail(self, run: Delivery) -> str | None:
        """Say why the answer of a finished run may have been lost, or None."""
        if run.acked_ns >= 0 or not self.contract.clauses.duplicate_after_lost_ack:
            return None
        until = run.ended_ns + self.ns("ack_s")
        if run.ended_ns <= self.death_ns(run) <= until and not self._wrote_ack(run):
            return "its worker died before the ack"
        window = first_touching(self.windows.path, run.ended_ns, until)
        return f"{window.fault.kind} cut the way of its ack" if window else None

    def ack_doubt(self, run: Delivery) -> str | None:
        """Say why the answer of a finished run may have been lost later than `ack_s` allows.

        Or why its lease may have run out before. None where it was settled, or where the machine
        was not starved enough meanwhile.
        """
        if run.acked_ns >= 0 or not self.contract.clauses.duplicate_after_lost_ack:
            return None
        ends_ns = [w.from_ns for w in self.windows.path if w.from_ns >= run.ended_ns]
        death_ns = self.death_ns(run)
        if run.ended_ns <= death_ns < NEVER_NS and not self._wrote_ack(run):
            ends_ns.append(death_ns)
        doubt: str | None = None
        if ends_ns:
            doubt = self.starvation.doubt((run.ended_ns, min(ends_ns)), self.ns("ack_s"))
        table, following = self.facts.deliveries, run.index + 1
        if not doubt and following < len(table) and table.job[following] == table.job[run.index]:
            doubt = self.lease_doubt(run.t_ns, int(table.t_ns[following]))
        return doubt

    def lease_doubt(self, from_ns: int, until_ns: int) -> str | None:
        """Say why a lease that was held from a delivery to the next may have run out, or None."""
        return self.starvation.lease_doubt((from_ns, until_ns), self.ns("lease_s"))

    def _wrote_ack(self, run: Delivery) -> bool:
        """Whether the worker started another job after this run, hence had written its ack."""
        if not self.contract.clauses.ack_before_next_job:
            return False
        if run.process not in self._last_start_ns:
            table = self.facts.deliveries
            mine = (table.process == run.process) & (table.kind == RAN)
            self._last_start_ns[run.process] = int(table.start_ns[mine].max())
        return self._last_start_ns[run.process] > run.ended_ns

    def job(self, number: int) -> Job:
        """Gather one job."""
        return Job(
            number=number,
            name=self.run.attempts.jobs[number],
            dispatches=self._dispatches(number),
            deliveries=self._deliveries(number),
            given_up=tuple(sorted(self._given_up.get(number, ()), key=_moment)),
            letters=(self.stores.letters or {}).get(number, ()),
            rows=(self.stores.rows or {}).get(number, ()),
        )

    def rows_of(self, number: int) -> list[int]:
        """Return all rows of the attempt table that are about a job; one pass over the table."""
        rows: list[int] = np.flatnonzero(self.run.attempts.job == number).tolist()
        return rows

    def _dispatches(self, number: int) -> tuple[Dispatch, ...]:
        table = self.run.dispatches
        low, high = np.searchsorted(self._dispatch_jobs, [number, number + 1])
        return tuple(
            Dispatch(
                row=row,
                invoke_ns=int(table.invoke_ns[row]),
                done_ns=int(table.done_ns[row]),
                result=int(table.result[row]),
                status=int(table.status[row]),
                offset=int(table.offset[row]),
                tries=int(table.tries[row]),
                timeout_ns=int(table.timeout_ns[row]),
                not_before_ns=int(table.not_before_ns[row]),
                backoff_s=table.backoffs[int(table.backoff[row])],
                digest=bytes(table.digest[row]).decode(),
            )
            for row in self._dispatch_order[low:high].tolist()
        )

    def _deliveries(self, number: int) -> tuple[Delivery, ...]:
        table, first = self.facts.deliveries, self.facts.first
        return tuple(
            Delivery(
                index=index,
                process=int(table.process[index]),
                t_ns=int(table.t_ns[index]),
                attempt=int(table.attempt[index]),
                kind=int(table.kind[index]),
                start_ns=int(table.start_ns[index]),
                ended_ns=int(table.ended_ns[index]),
                end_ns=int(table.end_ns[index]),
                acked_ns=int(table.acked_ns[index]),
                outcome=int(table.outcome[index]),
            )
            for index in range(int(first[number]), int(first[number + 1]))
        )


class UnreadBatches:
    """Charges that deaths with an unread pop may explain: `prefetch` jobs each, each job once."""

    def __init__(self, facts: Facts, contract: Contract):
        self._most: Final = contract.bounds.prefetch
        on = contract.charges.unread_batch
        self._deaths: list[int] = facts.unread_deaths_ns.tolist() if on else []
        self._charged: list[dict[int, tuple[int, int]]] = [{} for _ in self._deaths]

    def charge(self, job: int, delivery: Delivery, step: int, after_ns: int) -> bool:
        """Let one death explain one step of a job's number before a delivery; whether one could.

        Asking again for the same step gets the same answer.
        """
        use = (delivery.index, step)
        for death_ns, charged in zip(self._deaths, self._charged, strict=True):
            if not after_ns < death_ns <= delivery.t_ns:
                continue
            if job not in charged and len(charged) < self._most:
                charged[job] = use
            if charged.get(job) == use:
                return True
        return False


def starvation_of(run: RunRecords, bounds: Bounds) -> Starvation:
    """Return when the machine starved a run."""
    origin_ns = run.scenario.origin_ns if run.scenario else 0
    return Starvation(run.scheduling, bounds, origin_ns)


def window_text(window: FaultWindow) -> str:
    """Name a fault for a sentence."""
    return f"{window.fault.kind} of {window.fault.target}"


def _moment(entry: GivenUp) -> int:
    return entry.t_ns
