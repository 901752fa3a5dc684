"""Sending back what a dead worker had not begun: under its lease, one id, and on record."""

from __future__ import annotations

import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

import msgspec
import trio

from ..bugs import Bugs
from ..client import AsyncClient, BrokerError, Endpoint, Popped, calls
from ..jobs.debts import Debt, after_refusal, hand_back_operations
from ..jobs.settings import WorkerSettings
from ..jobs.unread import unread_call, unread_debt
from .clock import now_us, sleep_until_us
from .core.handback import (
    DeadLease,
    HandBackPolicy,
    Json,
    Send,
    Skip,
    decide_hand_back,
    decide_repeat,
    decide_rest,
    without_fence,
)
from .left_journals import LeftJournal, LeftJournals
from .logbook import Logbook
from .records import HandBack, append_line

CHARGES: Final = "crash-charges-prefetched"
"""The planted defect under which nothing goes back."""
_US: Final = 1_000_000

Result = Literal["sent", "refused", "unknown", "skipped"]


@dataclass(frozen=True, slots=True)
class _Outcome:
    """What became of a transaction; `reason` is the broker's when it judged and refused it."""

    result: Result
    detail: str
    reason: str = ""


class HandBackService:
    """Settles the leases of dead workers.

    Args:
        client: Asks the broker; several of its tries fit into the policy's budget.
        endpoints: The broker's nodes, in the client's order.
        policy: Bounds.
        journals: What dead workers left.
        workers: How the workers consume, each kind of them.
        record: File that every outcome is appended to.
        bugs: Planted defects.
        log: The master's log.
    """

    def __init__(
        self,
        client: AsyncClient,
        endpoints: Sequence[Endpoint],
        policy: HandBackPolicy,
        journals: LeftJournals,
        workers: Sequence[WorkerSettings],
        record: Path,
        bugs: Bugs,
        log: Logbook,
    ) -> None:
        self._client = client
        self._endpoints = tuple(endpoints)
        self._policy = policy
        self._journals = journals
        self._workers = tuple(workers)
        self._record = record
        self._bugs = bugs
        self._log = log

    def take_journal(self, pid: int) -> LeftJournal:
        """Take the journal of a dead worker; a refused one owes nothing."""
        journal = self._journals.take(pid)
        if journal.debts.refused is not None:
            self._log.warning("journal refused", worker=pid, reason=journal.debts.refused)
        return journal

    async def settle_left(self) -> None:
        """Settle what workers of a dead master had in hand."""
        async with trio.open_nursery() as nursery:
            for journal in self._journals.unsettled():
                nursery.start_soon(self.settle, journal, (), False, None)

    async def settle(
        self,
        journal: LeftJournal,
        leases: Sequence[DeadLease],
        shutdown_said: bool,
        first: Endpoint | None,
        worker: WorkerSettings | None = None,
    ) -> None:
        """Hand back, or decide against it, for every lease that a dead worker held.

        So goes what it had been sent and had not read, and what it owes under a lease that this
        master does not keep: nobody here knows how long that lives, so the broker is asked. In the
        end the journal is gone.

        Args:
            journal: What it left.
            leases: What it held.
            shutdown_said: Whether it settled by itself.
            first: The node to ask first: one that answered lately.
            worker: How it consumed; None when nobody knows of which kind it was.
        """
        pid, debts = journal.pid, journal.debts.debts
        for lease in leases:
            debt = next((d for d in debts if d.lease == lease.lease), None)
            journal_lease = debt.lease if debt is not None else None
            if debt is None and debts:
                journal_lease = debts[0].lease
            # What a worker settles by itself leaves its journal only when the broker confirms it.
            settles = shutdown_said and debt is None
            decision = decide_hand_back(
                now_us(), lease, journal_lease, settles, self._policy, self._bugs
            )
            if isinstance(decision, Skip) or debt is None:
                reason = decision.reason if isinstance(decision, Skip) else "no journal"
                self._write(pid, lease.lease, debt, "skipped", reason, time.monotonic_ns())
                continue
            await self._send(pid, lease, debt, decision, first)
        kept = {lease.lease for lease in leases}
        for debt in debts:
            if debt.lease not in kept and CHARGES not in self._bugs:
                expiry_us = now_us() + round(debt.plan.lease_s * _US)
                lease = DeadLease(debt.lease, expiry_us, is_fenced=False)
                await self._send(pid, lease, debt, Send(now_us()), first)
        if journal.debts.pop_id is not None and CHARGES not in self._bugs:
            for kind in self._workers if worker is None else (worker,):
                await self._settle_unread(pid, journal.debts.pop_id, first, kind)
        self._journals.delete(journal)

    async def _settle_unread(
        self, pid: int, pop_id: str, first: Endpoint | None, worker: WorkerSettings
    ) -> None:
        """Hand back what a worker's last pop had claimed, if it had claimed anything."""
        requested_us = now_us()
        try:
            popped: Popped = (
                await self._client.call(
                    unread_call(worker, pop_id),
                    request_id=pop_id,
                    deadline_s=self._policy.budget_us / _US,
                    first_endpoint=self._index(first),
                )
            ).value
        except BrokerError as error:
            self._log.warning("last pop unknown", worker=pid, error=str(error))
            return
        if not popped.messages:
            return
        debt = unread_debt(worker, popped, requested_us * 1000)
        expiry_us = requested_us + round(worker.lease_s * _US)
        lease = DeadLease(popped.lease_id, expiry_us, is_fenced=False)
        await self._send(pid, lease, debt, Send(now_us()), first)

    def _index(self, first: Endpoint | None) -> int:
        return self._endpoints.index(first) if first in self._endpoints else 0

    async def _send(
        self, pid: int, lease: DeadLease, debt: Debt, decision: Send, first: Endpoint | None
    ) -> None:
        send: Send | None = decision
        while send is not None:
            body = hand_back_operations(debt)
            assert body is not None, f"a debt of {pid} under {debt.lease} that owes nothing"
            await sleep_until_us(send.at_us)
            sent_ns = time.monotonic_ns()
            outcome = await self._transact(body if send.is_fenced else _unfenced(body), first)
            self._write(pid, debt.lease, debt, outcome.result, outcome.detail, sent_ns)
            if outcome.result == "sent":
                send = decide_repeat(send, now_us(), self._bugs)
                continue
            rest = after_refusal(debt, outcome.reason) if outcome.result == "refused" else None
            if rest is None:
                return
            debt = rest
            again = decide_rest(now_us(), lease, self._policy)
            if isinstance(again, Skip):
                self._write(pid, debt.lease, debt, "skipped", again.reason, time.monotonic_ns())
                return
            send = again

    async def _transact(self, body: Json, first: Endpoint | None) -> _Outcome:
        """Send a transaction; where no answer comes, again under its id, within the budget."""
        try:
            answer = await self._client.call(
                calls.transaction(body),
                deadline_s=self._policy.budget_us / _US,
                first_endpoint=self._index(first),
            )
        except BrokerError as error:
            return _Outcome("refused" if error.definite else "unknown", str(error))
        value = answer.value
        if value.success:
            return _Outcome("sent", "")
        reason = value.reason or ""
        return _Outcome("refused", value.error or reason or "no reason given", reason)

    def _write(
        self, pid: int, lease: str, debt: Debt | None, result: Result, reason: str, t_ns: int
    ) -> None:
        line = HandBack(
            t_ns=t_ns,
            pid=pid,
            lease=lease,
            unstarted=list(debt.unstarted) if debt else [],
            ran=list(debt.ran) if debt else [],
            result=result,
            reason=reason,
        )
        append_line(self._record, line)
        self._log.info(
            "hand-back",
            worker=pid,
            lease=lease,
            result=result,
            reason=reason,
            unstarted=line.unstarted,
            ran=line.ran,
            took_ms=round((time.monotonic_ns() - t_ns) / 1e6, 3),
        )


def _unfenced(body: Json) -> Json:
    plain = msgspec.json.decode(msgspec.json.encode(body), type=dict[str, object])
    return without_fence(plain, lambda: str(uuid.uuid4()))
