"""The worker: pop a batch, run its jobs in order, settle each, until asked to stop."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Final

from ..client import BrokerError
from .ack_batching import attend_deferred, send_at_end, send_in_time, settle_deferred
from .application import Application
from .attempt import pick_up
from .batch import Batch, Stage
from .ending import end_by_timeout, stop_gracefully
from .exitmark import MEMORY_EXIT, ExitMark, write_mark
from .leasewire import LeaseChannelBrokenError
from .log import log_event
from .narration import Narration, write_line
from .popping import next_batch, pop_ahead
from .session import WorkerSession
from .settings import WorkerSettings
from .signals import WorkerSignals

CHANNEL_LOST_EXIT: Final = 1
REFUSED_EXIT: Final = 1
OUTAGE_PAUSE_S_FIRST: Final = 0.1
OUTAGE_PAUSE_S_MAX: Final = 2.0

_PAGE_BYTES: Final = os.sysconf("SC_PAGE_SIZE")


def run_worker(app: Application, settings: WorkerSettings) -> int:
    """Consume until asked to stop; call it on the main thread of a process of its own.

    A job's timeout kills the process; SIGTERM lets the running job finish, and so does SIGUSR2,
    after which the worker's exit marker says that newer code is wanted.

    Args:
        app: What to run.
        settings: How to consume.

    Returns:
        Exit status: 0 after a stop or a recycling, 12 at the memory limit, 1 when the master's
        lease channel broke or the broker refuses this worker's pops.
    """
    app.set_dispatching(settings.bulk_batch, settings.after_commit)
    signals = WorkerSignals()
    session = WorkerSession(app, settings, signals)
    signals.install(lambda: _alarm(session), lambda: _hangup(session))
    try:
        if not settings.quiet:
            Narration(write_line).listen(app)
        session.channel.connect()
        descriptor = session.channel.fileno()
        if descriptor is not None:
            signals.watch_hangup(descriptor)
        status = consume(session)
    except LeaseChannelBrokenError as error:
        log_event("lease channel broken", level="error", error=str(error))
        session.close_connections()
        return CHANNEL_LOST_EXIT
    finally:
        signals.restore()
    return status


def consume(session: WorkerSession) -> int:
    """Pop and run until it is over, then settle and close; see `run_worker`."""
    outages = 0
    while not _is_over(session):
        asked_ns = time.monotonic_ns()
        try:
            batch = next_batch(session)
        except BrokerError as error:
            if error.status is not None and 400 <= error.status < 500 and error.status != 429:
                log_event("pop refused", level="error", error=str(error))
                stop_gracefully(session)
                session.close()
                return REFUSED_EXIT
            outages += 1
            session.tell_pops(asked_ns)
            log_event("pop failed", error=str(error), outages=outages)
            pause_s = OUTAGE_PAUSE_S_FIRST * 2.0 ** min(outages - 1, 10)
            session.signals.pause(min(OUTAGE_PAUSE_S_MAX, pause_s))
            continue
        outages = 0
        session.tell_pops(None)
        if batch is not None:
            _run_batch(session, batch)
        elif session.pending_pop is None and session.settings.block_for_s <= 0:
            session.signals.pause(session.settings.idle_s)
    stop_gracefully(session)
    session.close()
    if _is_too_big(session):
        write_mark(session.settings.state_dir, session.pid, ExitMark.MEMORY)
        return MEMORY_EXIT
    if session.signals.restarting:
        write_mark(session.settings.state_dir, session.pid, ExitMark.RESTART)
    return 0


def _run_batch(session: WorkerSession, batch: Batch) -> None:
    index = batch.next_unstarted()
    while index is not None and not _is_over(session):
        if session.channel.is_broken():
            raise LeaseChannelBrokenError("closed by the master")
        pop_ahead(session, batch, index)
        attend_deferred(session)
        if batch.stages[index] is Stage.UNSTARTED:
            handled = session.handled
            pick_up(session, batch, index)
            if session.runtimes is not None and session.handled > handled:
                session.runtimes.note(session.last_job_s)
            if session.sizing is not None and session.handled > handled:
                session.sizing.note(session.last_job_s)
            if session.settings.rest_s > 0 and not _is_over(session):
                settle_deferred(session)
                session.signals.pause(session.settings.rest_s)
        index = batch.next_unstarted(index)
    if not _is_over(session):
        send_at_end(session)


def _is_over(session: WorkerSession) -> bool:
    settings = session.settings
    if session.signals.stopping:
        return True
    if settings.max_jobs and session.handled >= settings.max_jobs:
        return True
    if settings.max_time_s and time.monotonic() - session.started_s >= settings.max_time_s:
        return True
    return _is_too_big(session)


def _is_too_big(session: WorkerSession) -> bool:
    """Whether the memory limit is reached; a worker that has handled nothing is never too big."""
    limit_mib = session.settings.memory_mib
    return limit_mib > 0 and session.handled > 0 and resident_bytes() >= limit_mib << 20


def resident_bytes() -> int:
    """This process's resident memory."""
    return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * _PAGE_BYTES


def _alarm(session: WorkerSession) -> None:
    attempt = session.attempt
    if attempt is None or session.is_foreign():
        return
    left_s = send_in_time(session, attempt)
    if left_s is not None:
        session.signals.arm(left_s)
        return
    session.attempt = None
    end_by_timeout(session, attempt)


def _hangup(session: WorkerSession) -> None:
    if session.is_foreign() or not session.channel.is_broken():
        return
    if session.held:
        os._exit(CHANNEL_LOST_EXIT)
    session.signals.stopping = True
