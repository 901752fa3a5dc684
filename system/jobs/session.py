"""What a worker holds while it lives: connections, journal, batch, and what is in flight."""

from __future__ import annotations

import os
import time
from typing import Final, TypeVar

import msgspec

from ..client import (
    Answer,
    Call,
    ClientOptions,
    Interrupted,
    Pending,
    Popped,
    SyncClient,
    load_security,
)
from ..client.records import AckResult
from .application import Application
from .batch import Batch
from .deferred_acks import DeferredAcks
from .failed import FailedStore
from .journal import POP_ID_BYTES, JournalWriter
from .leasewire import LeaseChannel
from .prefetching import AutoPrefetch
from .runtimes import RuntimeWriter
from .settings import WorkerSettings
from .shared_state import SharedState
from .signals import WorkerSignals

T = TypeVar("T")

LEASE_SHARE: Final = 0.25
"""Share of the lease that a pop may wait, that it may be tried for, that any try may take."""


class PendingAck(msgspec.Struct, frozen=True):
    """An ack whose answer was not read; `pending` is None while it is not on the wire."""

    batch: Batch
    index: int
    run: str
    call: Call[tuple[AckResult, ...]]
    pending: Pending[tuple[AckResult, ...]] | None


class PendingPop(msgspec.Struct, frozen=True):
    """A pop whose answer was not read."""

    pending: Pending[Popped]
    requested_ns: int


class RunningAttempt(msgspec.Struct, frozen=True):
    """The attempt whose handler runs."""

    batch: Batch
    index: int
    run: str
    payload: object
    tries: int


def new_pop_id() -> str:
    """A request id for the pops until the next batch."""
    return os.urandom(POP_ID_BYTES // 2).hex()


class WorkerSession:
    """One worker process. Whoever forks from it must not use it."""

    def __init__(self, app: Application, settings: WorkerSettings, signals: WorkerSignals) -> None:
        """Open the journal; connections open at first use."""
        self.app = app
        self.settings = settings
        self.signals = signals
        self.bugs = frozenset(settings.bugs)
        self.pid = os.getpid()
        self.journal = JournalWriter(settings.state_dir, self.pid)
        self.channel = LeaseChannel(settings.lease_socket)
        endpoints = settings.client_endpoints()
        # A node that is silent must be left while the lease still has time for another.
        share_s = settings.lease_s * LEASE_SHARE
        try_s = min(settings.try_timeout_s, share_s)
        security = load_security(settings.security)
        guarded = (security.tls, security.bearer)
        options = ClientOptions(try_s, settings.deadline_s, self.pid, *guarded)
        self.acks = SyncClient(endpoints, options, interrupt_fd=signals.wake_fd)
        pop_options = ClientOptions(try_s, share_s, self.pid, *guarded)
        self.pops = SyncClient(endpoints, pop_options, interrupt_fd=signals.wake_fd)
        self.shared = SharedState(endpoints, pop_options)
        self.fences: dict[str, int] = {}
        self.store = _store(app, settings)
        self.queue = settings.queue
        """Where the present pop or batch is from; with several queues it changes."""
        self.batch: Batch | None = None
        self.held: set[str] = set()
        self.pending_ack: PendingAck | None = None
        self.deferred = DeferredAcks(settings.ack_batch) if settings.ack_batch > 1 else None
        self.pending_pop: PendingPop | None = None
        self.pop_id = new_pop_id()
        self.sizing = AutoPrefetch() if settings.prefetch == "auto" else None
        self.asked = 1 if settings.prefetch == "auto" else settings.prefetch
        self.attempt: RunningAttempt | None = None
        self.failing_since_ns: int | None = None
        self.runtimes = RuntimeWriter(settings.state_dir, self.pid) if settings.telemetry else None
        self.handled = 0
        self.last_job_s = 0.0
        self.started_s = time.monotonic()

    def is_foreign(self) -> bool:
        """Whether this is a process that a job forked."""
        return os.getpid() != self.pid

    def ask(self, call: Call[T], request_id: str | None = None) -> Answer[T]:
        """Make a call and wait; a stop leaves it a moment only.

        Raises:
            BrokerError: It was refused, or no final answer came in time.
        """
        return self.receive(self.acks, self.acks.send(call, request_id=request_id))

    def receive(self, client: SyncClient, pending: Pending[T]) -> Answer[T]:
        """Wait for an answer; a stop leaves it a moment only.

        Raises:
            BrokerError: It was refused, or no final answer came in time.
        """
        while not self.signals.stopping:
            try:
                return client.receive(pending, interruptible=True)
            except Interrupted:
                self.signals.drain()
        client.shorten(pending, self.settings.settle_timeout_s)
        return client.receive(pending)

    def record(self, batch: Batch) -> None:
        """Bring the journal up to date, if it is about this batch."""
        if batch is self.batch:
            self.journal.write(batch.codes, batch.running, batch.since_ns, batch.retry_delay_ms)

    def hold(self, batch: Batch) -> None:
        """Have the master renew a batch's lease.

        Raises:
            LeaseChannelBrokenError: The master is gone.
        """
        self.held.add(batch.lease)
        self.channel.hold(batch.lease, batch.lease_s, batch.requested_ns)

    def pause(self, batch: Batch) -> None:
        """Have the master leave a batch's lease alone: the next request may release it.

        Raises:
            LeaseChannelBrokenError: The master is gone.
        """
        if batch.lease in self.held:
            self.channel.pause(batch.lease)

    def forget(self, batch: Batch) -> None:
        """Have the master stop renewing a batch's lease.

        Raises:
            LeaseChannelBrokenError: The master is gone.
        """
        if batch.lease in self.held:
            self.held.discard(batch.lease)
            self.channel.forget(batch.lease)

    def abandon(self, batch: Batch) -> None:
        """Give a lease up: what is open under it comes back when it expires.

        Raises:
            LeaseChannelBrokenError: The master is gone.
        """
        batch.give_up_lease()
        if batch is self.batch:
            self.journal.withdraw()
        self.forget(batch)

    def tell_pops(self, failing_since_ns: int | None) -> None:
        """Tell the master since when no pop has been answered; what it knows is not repeated.

        Raises:
            LeaseChannelBrokenError: The master is gone.
        """
        if (self.failing_since_ns is None) == (failing_since_ns is None):
            return
        self.failing_since_ns = failing_since_ns
        if "failing-pops-count-as-capacity" not in self.bugs:
            self.channel.pops(failing_since_ns)

    def close(self) -> None:
        """Close everything; the journal stays only where this worker could not settle it."""
        self.close_connections()
        self.journal.close()

    def close_connections(self) -> None:
        """Close everything but the journal, which still says what is owed."""
        self.acks.close()
        self.pops.close()
        self.shared.close()
        self.channel.close()
        if self.store is not None:
            self.store.close()


def _store(app: Application, settings: WorkerSettings) -> FailedStore | None:
    path = settings.failed_store or app.failed_store
    return None if path is None else FailedStore(path)
