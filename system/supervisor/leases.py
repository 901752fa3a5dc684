"""The lease service: workers report what they hold, the master renews it or fences them."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Final

import msgspec
import trio

from ..client import AsyncClient, BrokerError, Endpoint, calls
from ..jobs.leasewire import Forget, Hold, Pause, Pops, decode_lease_message
from .clock import now_us
from .core.renewal import LeaseWatch, RenewalPolicy, Step
from .forkwire import Lines
from .linux import PEER_CREDENTIALS_BYTES, peer_credentials
from .logbook import Logbook
from .worker_handle import HeldLease, Worker

_READ_BYTES: Final = 1 << 16
_INTRODUCTION_S: Final = 1.0
_BACKLOG: Final = 128
_US: Final = 1_000_000
_FAR_US: Final = 1 << 62


def listen(path: Path) -> socket.socket:
    """Listen on a Unix socket that only this user may connect to.

    Raises:
        OSError: The path cannot be bound.
    """
    path.unlink(missing_ok=True)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    before = os.umask(0o177)
    try:
        listener.bind(os.fspath(path))
    except OSError:
        listener.close()
        raise
    finally:
        os.umask(before)
    listener.listen(_BACKLOG)
    listener.setblocking(False)
    return listener


class LeaseService:
    """Renews the leases of workers over one broker client.

    One timer serves all leases: most are forgotten long before anything is due for them, and then
    cost nothing but their entry.

    Args:
        nursery: Where conversations and renewals run.
        client: Asks the broker; its tries end within the policy's timeout.
        policy: Bounds of renewal.
        find: Returns the living worker with a pid.
        log: The master's log.
    """

    def __init__(
        self,
        nursery: trio.Nursery,
        client: AsyncClient,
        policy: RenewalPolicy,
        find: Callable[[int], Worker | None],
        log: Logbook,
    ) -> None:
        self._nursery = nursery
        self._client = client
        self._policy = policy
        self._find = find
        self._log = log
        self._lines: dict[Worker, Lines] = {}
        self._next_us = _FAR_US
        self._sooner = trio.Event()
        self.answered_by: Endpoint | None = None

    async def serve(self, listener: socket.socket) -> None:
        """Accept workers for ever."""
        while True:
            await trio.lowlevel.wait_readable(listener)
            try:
                connection, _ = listener.accept()
            except (BlockingIOError, ConnectionAbortedError):
                continue
            connection.setblocking(False)
            self._nursery.start_soon(self._converse, connection)

    def drain(self, worker: Worker) -> bool:
        """Obey all that a worker has said so far; False when its end of the channel is closed."""
        channel = worker.channel
        if channel is None:
            return False
        lines = self._lines[worker]
        while True:
            try:
                data = channel.recv(_READ_BYTES)
            except BlockingIOError:
                return True
            except OSError:
                return False
            if not data:
                return False
            for line in lines.feed(data):
                if not self._obey(worker, line):
                    return False
            if len(data) < _READ_BYTES:
                # Nothing more was there; an end that follows makes the channel readable again.
                return True

    def forget_worker(self, worker: Worker) -> None:
        """Read a dead worker's last words and end all that is done for it."""
        self.drain(worker)
        self._lines.pop(worker, None)
        worker.close()

    async def _converse(self, connection: socket.socket) -> None:
        raw = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, PEER_CREDENTIALS_BYTES)
        pid, uid = peer_credentials(raw)
        worker = await self._introduce(pid) if uid == os.getuid() else None
        if worker is None or worker.channel is not None:
            self._log.warning("lease channel refused", peer=pid, uid=uid)
            connection.close()
            return
        worker.channel = connection
        self._lines[worker] = Lines()
        while self.drain(worker):
            try:
                await trio.lowlevel.wait_readable(connection)
            except trio.ClosedResourceError:
                return
        if worker.leases and self._find(pid) is worker:
            self._log.warning("lease channel lost", worker=pid, leases=list(worker.leases))
            worker.send_signal(signal.SIGKILL)
        worker.close_channel()

    async def _introduce(self, pid: int) -> Worker | None:
        """Find the worker; the fork server's word about it may be a moment behind."""
        deadline = trio.current_time() + _INTRODUCTION_S
        while (worker := self._find(pid)) is None and trio.current_time() < deadline:
            await trio.sleep(0.005)
        return worker

    def _obey(self, worker: Worker, line: bytes) -> bool:
        try:
            message = decode_lease_message(line)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            self._log.error("lease message refused", worker=worker.pid, error=str(error))
            return False
        if isinstance(message, Hold):
            self._hold(worker, message)
        elif isinstance(message, Forget):
            held = worker.leases.pop(message.lease, None)
            if held is not None:
                held.stop()
        elif isinstance(message, Pause):
            paused = worker.leases.get(message.lease)
            if paused is not None:
                paused.is_paused = True
                paused.stop()
        elif isinstance(message, Pops):
            worker.failing_since_ns = message.failing_since_ns
        else:
            worker.shutdown_said = True
        return True

    def _hold(self, worker: Worker, message: Hold) -> None:
        now = now_us()
        requested_us = min(now, message.requested_ns // 1000)
        watch = LeaseWatch(requested_us, round(message.lease_s * _US), now, self._policy)
        replaced = worker.leases.pop(message.lease, None)
        if replaced is not None:
            replaced.stop()
        held = HeldLease(message.lease, message.lease_s, watch)
        worker.leases[message.lease] = held
        self._expect(watch.next_us)

    def _expect(self, at_us: int) -> None:
        """Have `keep` look at the leases at this time at the latest."""
        if at_us < self._next_us:
            self._next_us = at_us
            self._sooner.set()

    async def keep(self) -> None:
        """Renew every lease in time until it is forgotten, or end its worker; runs for ever."""
        while True:
            self._sooner = trio.Event()
            self._next_us = self._step_due()
            with trio.move_on_after(max(0, self._next_us - now_us()) / _US):
                await self._sooner.wait()

    def _step_due(self) -> int:
        """Do what is due for any lease; return when to look again."""
        next_us = _FAR_US
        for worker in self._lines:
            for held in worker.leases.values():
                if held.is_over or held.renewal is not None:
                    continue
                self._step(worker, held)
                if not held.is_over and held.renewal is None:
                    next_us = min(next_us, held.watch.next_us)
        return next_us

    def _step(self, worker: Worker, held: HeldLease) -> None:
        now = now_us()
        if now < held.watch.next_us:
            return
        step = held.watch.step(now)
        if step is Step.RENEW:
            held.renewal = trio.CancelScope()
            self._nursery.start_soon(self._keep_one, worker, held, held.renewal)
        elif step is Step.TERM:
            self._fence(worker, held, signal.SIGTERM, "cannot be renewed in time")
        elif step is Step.KILL:
            self._fence(worker, held, signal.SIGKILL, "cannot be renewed in time")
            held.stop()

    async def _keep_one(self, worker: Worker, held: HeldLease, scope: trio.CancelScope) -> None:
        with scope:
            await self._renew(worker, held)
        held.renewal = None
        if not held.is_over:
            self._expect(held.watch.next_us)

    async def _renew(self, worker: Worker, held: HeldLease) -> None:
        requested_us = now_us()
        try:
            answer = await self._client.call(
                calls.extend(held.lease, held.seconds), deadline_s=self._policy.budget_us / _US
            )
        except BrokerError as error:
            self._log.warning(
                "renewal failed", worker=worker.pid, lease=held.lease, error=str(error)
            )
            held.watch.failed(now_us())
            return
        self.answered_by = answer.answered_by
        if answer.value.success and answer.value.renewed > 0:
            held.watch.renewed(requested_us, now_us())
            return
        # An ack that released it may have crossed the renewal: the worker said so before it.
        self.drain(worker)
        if worker.leases.get(held.lease) is held and not held.is_paused:
            held.watch.give_up(now_us())
            self._fence(worker, held, signal.SIGKILL, "is no longer the worker's")

    def _fence(self, worker: Worker, held: HeldLease, number: signal.Signals, why: str) -> None:
        self._log.warning(
            "worker fenced", worker=worker.pid, lease=held.lease, signal=number.name, reason=why
        )
        worker.was_killed = True
        worker.send_signal(number)
