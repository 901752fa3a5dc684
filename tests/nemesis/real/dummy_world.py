"""A `World` of small child processes: nodes, a supervisor with workers, and their deaths."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import trio

from atleastonce.nemesis.clockshim.shim import preloading
from atleastonce.nemesis.ext4 import Ext4Image
from atleastonce.nemesis.gate import DiskGate
from atleastonce.nemesis.links import Links
from atleastonce.nemesis.process import is_alive, is_stopped
from atleastonce.nemesis.world import Backend, NodeState, SupervisorClock, Target, WorkerView

from .dummy_administration import DummyAdministration

# Says "r" once it ends on SIGTERM with status 0 (or, if stubborn, not at all).
GRACEFUL = "signal.signal(15, lambda *_: os._exit(0))"
STUBBORN = "signal.signal(15, signal.SIG_IGN)"
_NODE = "import os, signal\n{}\nos.write(1, b'r')\nwhile True: signal.pause()"
_REFUSING = "import os\nos.write(1, b'r')\nos._exit(70)"
# Two workers that die with it, as PR_SET_PDEATHSIG has it. It says their pids.
_SUPERVISOR = """
import ctypes, os, signal
def worker():
    ctypes.CDLL(None).prctl(1, 9)
    os.write(1, b'%d\\n' % os.getpid())
    while True: signal.pause()
signal.signal(15, lambda *_: os._exit(0))
for _ in range(2):
    if os.fork() == 0:
        signal.signal(15, signal.SIG_DFL)
        worker()
while True: signal.pause()
"""


class DummyWorld:
    """Three nodes, of which the first that runs leads; two workers; all of them real processes."""

    def __init__(self, node_code: str = GRACEFUL) -> None:
        self._node_code = _NODE.format(node_code)
        self._children: dict[int, subprocess.Popen[bytes]] = {}
        self._statuses: dict[int, int] = {}
        self._nodes: dict[str, Target] = {}
        self._supervisor: Target | None = None
        self._worker_pids: list[int] = []
        self.leaderless = False
        self.started: list[str] = []
        self.own_links: Links | None = None
        self.volumes: dict[str, Ext4Image] = {}
        self.own_workers: list[Target] = []
        self.worker_state = ("running", 2)
        self.replaces_workers = True
        self.folder = Path("/nonexistent")
        self.errors_us: dict[str, int] = {}
        self.hides_time_of_day = False
        self.behind = 0
        self.own_fork_server: Target | None = None
        self.refuses: Callable[[str], bool] = lambda _: False
        self.own_backend: Backend | None = None
        self._refusing: set[str] = set()
        self.own_clock: SupervisorClock | None = None
        self.gates: dict[str, DiskGate] = {}
        self.desk = DummyAdministration(["n1", "n2", "n3"], self.node_data)
        for name in ("n1", "n2", "n3"):
            self._nodes[name] = self._spawn(name, self._node_code, b"r")

    def _spawn(self, name: str, code: str, ready: bytes) -> Target:
        child = subprocess.Popen([sys.executable, "-S", "-c", code], stdout=subprocess.PIPE)
        self._children[child.pid] = child
        assert child.stdout is not None
        assert child.stdout.read(len(ready)) == ready
        return Target.of(child.pid, name)

    def adopt(self, child: subprocess.Popen[bytes]) -> None:
        """Take a process over, which is reaped and ended like all others."""
        self._children[child.pid] = child

    def place(self, node: str, target: Target) -> None:
        """Say which process a node runs in."""
        self._nodes[node] = target

    def nodes(self) -> Sequence[str]:
        return tuple(self._nodes)

    async def leader(self) -> str | None:
        await trio.sleep(0)
        if self.leaderless:
            return None
        up = (n for n, t in self._nodes.items() if is_alive(t) and not is_stopped(t))
        return next(up, None)

    async def node_state(self, node: str) -> NodeState:
        await trio.sleep(0)
        return self.last_states()[node]

    def last_states(self) -> Mapping[str, NodeState]:
        """Each death begins a term; what was started again is behind the others."""
        running = self.running_nodes()
        term = 1 + len(self._statuses)
        return {
            name: NodeState()
            if name not in running
            else NodeState(
                "leader" if name == running[0] else "follower",
                term,
                applied=100 - self.behind * self.started.count(name),
                is_healthy=True,
            )
            for name in self._nodes
        }

    def node_process(self, node: str) -> Target:
        return self._nodes[node]

    async def start_node(self, node: str) -> None:
        assert not is_alive(self._nodes[node])
        self.started.append(node)
        self._refusing.discard(node)
        if self.refuses(node):
            self._refusing.add(node)
        code = _REFUSING if node in self._refusing else self._node_code
        self._nodes[node] = self._spawn(node, code, b"r")

    def kill(self, node: str) -> None:
        os.kill(self._nodes[node].pid, signal.SIGKILL)

    async def is_answering(self, node: str) -> bool:
        await trio.sleep(0.1)
        return is_alive(self._nodes[node]) and node not in self._refusing

    async def wait_node_healthy(self, node: str, timeout_s: float) -> bool:
        with trio.move_on_after(timeout_s):
            while is_stopped(self._nodes[node]) or not is_alive(self._nodes[node]):
                await trio.sleep(0.005)
            return True
        return False

    async def wait_exit(self, target: Target) -> int:
        while target.pid not in self._statuses:
            if target.pid in self._children:
                pid, status = os.waitpid(target.pid, os.WNOHANG)
                if pid:
                    self._statuses[pid] = status
                    self._forget(pid)
            await trio.sleep(0.002)
        return self._statuses[target.pid]

    def _forget(self, pid: int) -> None:
        child = self._children.pop(pid)
        child.returncode = 0
        if child.stdout is not None:
            child.stdout.close()

    def node_data(self, node: str) -> Path:
        return self.folder / node

    def disk_gate(self, node: str) -> DiskGate:
        return self.gates.setdefault(node, DiskGate(self.folder / node))

    def administration(self) -> DummyAdministration:
        return self.desk

    def set_time_of_day_error(self, node: str, error_us: int) -> None:
        self.errors_us[node] = error_us

    async def time_of_day_error_us(self, node: str) -> int | None:
        await trio.sleep(0)
        return None if self.hides_time_of_day else self.errors_us.get(node, 0) + 1234

    def supervisor_clock(self) -> SupervisorClock | None:
        return self.own_clock

    def backend(self) -> Backend | None:
        return self.own_backend

    def supervisor_process(self) -> Target | None:
        if self._supervisor is not None and is_alive(self._supervisor):
            return self._supervisor
        return None

    def fork_server(self) -> Target | None:
        """A sleeper, which this world replaces as a master would."""
        if self.own_fork_server is not None and not is_alive(self.own_fork_server):
            self.own_fork_server = self._spawn("fork server", self._node_code, b"r")
        return self.own_fork_server

    def start_fork_server(self) -> Target:
        self.own_fork_server = self._spawn("fork server", self._node_code, b"r")
        return self.own_fork_server

    async def start_supervisor(self) -> None:
        self.start_supervisor_now()
        self.started.append("supervisor")
        await trio.sleep(0)

    def start_supervisor_now(self) -> None:
        shim = None if self.own_clock is None else self.own_clock.path
        child = subprocess.Popen(
            [sys.executable, "-S", "-c", _SUPERVISOR],
            stdout=subprocess.PIPE,
            env={**os.environ, **({} if shim is None else preloading(shim, os.environ))},
        )
        self._children[child.pid] = child
        assert child.stdout is not None
        self._worker_pids = [int(child.stdout.readline()) for _ in range(2)]
        self._supervisor = Target.of(child.pid, "supervisor")

    async def wait_supervisor_ready(self, timeout_s: float) -> bool:
        await trio.sleep(0)
        return bool(self.workers())

    def start_own_workers(self, number: int) -> None:
        """Workers without a supervisor, which this world itself replaces."""
        self.own_workers = [self._spawn("worker", self._node_code, b"r") for _ in range(number)]

    def links(self) -> Links | None:
        return self.own_links

    async def reach_s(self, source: str, target: str, timeout_s: float) -> float | None:
        await trio.sleep(0)
        return 0.0 if source != target and timeout_s > 0 else None

    def volume(self, node: str) -> Ext4Image | None:
        return self.volumes.get(node)

    def workers(self) -> Sequence[WorkerView]:
        if not self.own_workers:
            return [WorkerView(pid, "running", "job-1", 0, 1) for pid in self._worker_pids]
        if self.replaces_workers:
            self.own_workers = [
                worker if is_alive(worker) else self._spawn("worker", self._node_code, b"r")
                for worker in self.own_workers
            ]
        state, leases = self.worker_state
        first = self.own_workers[0].pid
        return [
            WorkerView(w.pid, state, "job-1", 0, leases)
            if w.pid == first
            else WorkerView(w.pid, "idle", None, 0, 0)
            for w in self.own_workers
            if is_alive(w)
        ]

    def running_nodes(self) -> list[str]:
        return [n for n, t in self._nodes.items() if is_alive(t) and not is_stopped(t)]

    def end(self) -> None:
        for child in self._children.values():
            child.kill()
            child.wait()
            if child.stdout is not None:
                child.stdout.close()
