"""A living worker as the master sees it."""

from __future__ import annotations

import os
import signal
import socket
from dataclasses import dataclass, field

import trio

from .core.renewal import LeaseWatch
from .crew import Crew
from .fork_link import ForkLink
from .linux import kill_group
from .records import WorkerState


@dataclass(slots=True, eq=False)
class HeldLease:
    """A lease that a worker holds.

    Attributes:
        lease: Its id.
        seconds: How long each renewal asks for.
        watch: Its schedule.
        is_paused: Whether its worker may have released it by now.
        is_over: Whether nothing is done for it any more: it is forgotten or paused, or its worker
            is dead or fenced.
        renewal: The renewal that is under way, or None.
    """

    lease: str
    seconds: float
    watch: LeaseWatch
    is_paused: bool = False
    is_over: bool = False
    renewal: trio.CancelScope | None = None

    def stop(self) -> None:
        """Renew it no more, and give up a renewal that is under way."""
        self.is_over = True
        if self.renewal is not None:
            self.renewal.cancel()


@dataclass(slots=True, eq=False)
class Worker:
    """One forked worker.

    Attributes:
        crew: The workers of its kind.
        slot: Its place among them.
        server: The fork server that it came from.
        pid: Its pid.
        pidfd: A descriptor of the process itself, or -1 when it had already been reaped.
        started_us: When the master learnt of it.
        leases: What it holds, by lease id.
        channel: Its connection, or None.
        shutdown_said: Whether it settles what it holds by itself.
        was_killed: Whether the master ended it for something that is not its fault.
        was_asked: Whether the master asked it to finish.
        failing_since_ns: When the first of its pops since the last good one was made, or None.
        state: What it does, as last seen.
        job: The job it runs, as last seen.
        since_ns: When that state began.
    """

    crew: Crew
    slot: int
    server: ForkLink
    pid: int
    pidfd: int
    started_us: int
    leases: dict[str, HeldLease] = field(default_factory=dict)
    channel: socket.socket | None = None
    shutdown_said: bool = False
    was_killed: bool = False
    was_asked: bool = False
    failing_since_ns: int | None = None
    state: WorkerState = "idle"
    job: str | None = None
    since_ns: int = 0

    def ask_to_end(self, number: signal.Signals) -> None:
        """Have it finish its job, hand back the rest and end; SIGUSR2 also asks for newer code."""
        self.was_asked = True
        self.send_signal(number)

    def send_signal(self, number: signal.Signals) -> None:
        """Send a signal to this very process; one that is dead already gets none."""
        if self.pidfd < 0:
            return
        try:
            signal.pidfd_send_signal(self.pidfd, number)
        except ProcessLookupError:
            return

    def kill_with_group(self) -> None:
        """SIGKILL the process and all that is in its process group."""
        if self.pidfd < 0:
            return
        # A process that this descriptor still reaches keeps its number; it leads its own group,
        # except in its first moments, when there is nobody else to kill.
        try:
            signal.pidfd_send_signal(self.pidfd, 0)
        except ProcessLookupError:
            return
        kill_group(self.pid)
        self.send_signal(signal.SIGKILL)

    def stop_renewals(self) -> None:
        """End every renewal; the leases stay listed."""
        for held in self.leases.values():
            held.stop()

    def close_channel(self) -> None:
        """Close the connection; whoever waits on it is woken."""
        if self.channel is not None:
            trio.lowlevel.notify_closing(self.channel)
            self.channel.close()
            self.channel = None

    def close(self) -> None:
        """Release what the master holds of it."""
        self.stop_renewals()
        self.close_channel()
        if self.pidfd >= 0:
            os.close(self.pidfd)
            self.pidfd = -1


def open_pidfd(pid: int) -> int:
    """Return a descriptor of a process, or -1 when it is gone."""
    try:
        return os.pidfd_open(pid)
    except ProcessLookupError:
        return -1
