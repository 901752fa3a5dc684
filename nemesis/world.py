"""What a nemesis sees of the system, and what it may ask of whoever runs it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from ..histories.faults import FaultEvent
from .administration import Administration
from .ext4 import Ext4Image
from .gate import DiskGate
from .links import Links
from .process import start_time


@dataclass(frozen=True, slots=True)
class Target:
    """One process, for ever: a pid alone is given to another process one day.

    Attributes:
        pid: Its number.
        start_time: Field 22 of /proc/PID/stat: clock ticks after boot.
        name: Such as `n1`, `supervisor`, `worker 4711`.
    """

    pid: int
    start_time: str
    name: str

    @classmethod
    def of(cls, pid: int, name: str) -> Target:
        """Identify a running (or not yet reaped) process.

        Raises:
            ProcessGoneError: There is none.
        """
        return cls(pid, start_time(pid), name)


@dataclass(frozen=True, slots=True)
class WorkerView:
    """A worker as its supervisor describes it.

    Attributes:
        pid: Its process.
        state: starting, idle, prefetched or running.
        job: The job that runs, if one does.
        since_ns: CLOCK_MONOTONIC of the last change of state.
        leases: Batches that it holds: the current one, and one popped ahead.
        unstarted: Jobs that it holds and has not begun; None if nobody knows.
        unacked: Jobs whose end the broker may not have heard of; None if nobody knows.
    """

    pid: int
    state: str
    job: str | None
    since_ns: int
    leases: int
    unstarted: int | None = None
    unacked: int | None = None


LAG_MIN: Final = 8
"""A node that has more committed entries left to apply than this is catching up."""


@dataclass(frozen=True, slots=True)
class NodeState:
    """A node in its own words.

    Attributes:
        role: leader, follower, candidate and so on; empty if it is silent.
        term: Its term.
        lag: Committed entries that it knows of and has not applied.
        applied: The last entry that it has applied.
        is_healthy: Whether it serves and knows a leader.
    """

    role: str = ""
    term: int = 0
    lag: int = 0
    applied: int = 0
    is_healthy: bool = False

    @property
    def word(self) -> str:
        """Its state in a word or two: silent, electing, catching up, settling, healthy."""
        if not self.role:
            return "silent"
        if "candidate" in self.role:
            return "electing"
        if self.lag > LAG_MIN:
            return "catching up"
        return "healthy" if self.is_healthy else "settling"


class Backend(Protocol):
    """What a nemesis needs of a server."""

    @property
    def target(self) -> Target | None:
        """Its process; None while it is down."""

    def start(self) -> None:
        """Start it again; returns before it is ready. Raises `OSError`."""

    async def wait_ready(self, timeout_s: float) -> bool:
        """Wait until it serves; False if it takes longer."""


class SupervisorClock(Protocol):
    """The time of day of one supervisor and all that it starts; see `clockshim`."""

    @property
    def path(self) -> Path:
        """The shim that they were started with."""

    @property
    def attempts(self) -> Path:
        """Where its workers write their attempt logs."""

    async def ask_error_us(self) -> int | None:
        """By how much a program that is started now, as they were, sees its clock moved."""


class World(Protocol):
    """The running system. Nobody but the nemesis makes its processes end or stop meanwhile."""

    def nodes(self) -> Sequence[str]:
        """The names of all nodes, up or down."""

    async def leader(self) -> str | None:
        """The node that leads, as the nodes say now; None if none does."""

    async def node_state(self, node: str) -> NodeState:
        """What a node says of itself now."""

    def last_states(self) -> Mapping[str, NodeState]:
        """What each node last said of itself, without asking."""

    def node_process(self, node: str) -> Target:
        """The process that a node runs in, or ran in last."""

    async def start_node(self, node: str) -> None:
        """Start a node that is down. Returns before it is ready."""

    async def is_answering(self, node: str) -> bool:
        """Whether a node answers at all, healthy or not."""

    async def wait_node_healthy(self, node: str, timeout_s: float) -> bool:
        """Wait until a node knows a leader and has caught up; False if it takes longer."""

    async def wait_exit(self, target: Target) -> int:
        """Wait until a node or the supervisor was reaped; its raw wait status."""

    def node_data(self, node: str) -> Path:
        """The folder of a node's data."""

    def disk_gate(self, node: str) -> DiskGate:
        """The gate before a node's disk; there is one in runs with a fault that needs it."""

    def administration(self) -> Administration:
        """What the nodes can be asked as by an operator."""

    def set_time_of_day_error(self, node: str, error_us: int) -> None:
        """Make a node's time of day wrong by so much from now on; 0 is right."""

    async def time_of_day_error_us(self, node: str) -> int | None:
        """By how much a node's time of day is wrong, as it says itself; None without an answer."""

    def supervisor_clock(self) -> SupervisorClock | None:
        """The clock of the supervisor that is hit; None in a run without faults on it."""

    def backend(self) -> Backend | None:
        """The server that the audited system uses; None in a run without one."""

    def supervisor_process(self) -> Target | None:
        """The supervisor's master; None while it is down."""

    def fork_server(self) -> Target | None:
        """The process that workers are forked from; None while there is none."""

    async def start_supervisor(self) -> None:
        """Start the supervisor, which is down. Returns before it is ready."""

    async def wait_supervisor_ready(self, timeout_s: float) -> bool:
        """Wait until all workers have started; False if it takes longer."""

    def workers(self) -> Sequence[WorkerView]:
        """The workers that the supervisor last named."""

    def links(self) -> Links | None:
        """The links between the ends of the run, for faults; None if it has none to break."""

    async def reach_s(self, source: str, target: str, timeout_s: float) -> float | None:
        """Dial a node, as another node, as the clients or as the workers do, until it answers.

        Returns:
            After how many seconds a new connection had carried bytes; None if none did in time.
        """

    def volume(self, node: str) -> Ext4Image | None:
        """The file system that a node's data lies on, if it has one of its own."""


class FaultRecorder(Protocol):
    """Keeps what the nemesis did and saw; `histories.lines.LineWriter` is one."""

    def write(self, record: FaultEvent, /) -> None:
        """Append one event, so that it survives the death of this process."""
