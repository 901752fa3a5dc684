"""The system of one run: its nodes and its supervisor, as the nemesis and the runner drive them."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

import trio

from ..nemesis.ext4 import Ext4Image
from ..nemesis.gate import DiskGate
from ..nemesis.ledger import Ledger
from ..nemesis.links import Links
from ..nemesis.process import ProcessGoneError
from ..nemesis.world import Backend, NodeState, Target, WorkerView
from ..system.client import Endpoint
from ..system.node.timeofday import wall_us, write_offset
from .administration import NodeAdministration
from .child_variables import SUPERVISOR_MODULE, variables_of
from .children import log_tail, spawn
from .errors import HarnessError, NodeStartError
from .gates import Gates, Wrap
from .network import CLIENTS, WORKERS, Network
from .planning import SUPERVISOR_MARGIN_S
from .reach import reach_s
from .reaper import Identity, Reaper
from .run_configs import write_configs
from .scenario import Scenario
from .shims import ShimmedClock, Shims
from .store import RunPaths
from .supervised import Child, Supervised
from .volumes import Volumes
from .watch import NodeWatch

NODE_MODULE: Final = "atleastonce.system.node"
START_DEADLINE_S: Final = 30.0
_POLL_S: Final = 0.05
_NODE_STOP_S: Final = 8.0
_STRANGER_S: Final = 20.0


class Cluster:
    """Starts, watches and stops the processes of a run; the nemesis sees it as its `World`.

    A node keeps its ports and its data over restarts.
    """

    def __init__(
        self,
        scenario: Scenario,
        run: RunPaths,
        network: Network,
        reaper: Reaper,
        ledger: Ledger,
        supervisors: Sequence[Supervised],
    ) -> None:
        self._scenario = scenario
        self._run = run
        self._network = network
        self._reaper = reaper
        self._ledger = ledger
        self._children: dict[str, Child] = {}
        self._helpers: dict[str, Child] = {}
        self.supervisors = supervisors
        self._hit = supervisors[0] if supervisors else None
        self.volumes: Volumes | None = None
        folders = {node: run.node_data(node) for node in scenario.node_names}
        self.gates = Gates(folders, scenario.plan)
        self._shims = Shims(run, scenario, reaper)
        told = network.control_endpoints()
        self._administration = NodeAdministration(run, told, self.gates)
        self.watch = NodeWatch(told)

    def write_configs(self) -> None:
        """Write the token, every configuration and the clock shims; `HarnessError` if one fails."""
        write_configs(self._scenario, self._run, self._network, self.supervisors)
        self._shims.write()

    def endpoints(self) -> Mapping[str, Endpoint]:
        """Return where clients dial each node."""
        return self._network.endpoints(CLIENTS)

    def links(self) -> Links | None:
        """Return the links that faults act on; None where there are none."""
        return self._network.links

    def volume(self, node: str) -> Ext4Image | None:
        """Return the file system of a node's data, if it has one of its own."""
        return None if self.volumes is None else self.volumes.of(node)

    def nodes(self) -> Sequence[str]:
        """Return the names of all nodes."""
        return self._scenario.node_names

    def is_node_alive(self, node: str) -> bool:
        """Whether the node's process has not been reaped."""
        return node in self._children and self._lives(self._children[node])

    def _lives(self, child: Child) -> bool:
        return self._reaper.status(child.target.pid) is None

    def running(self) -> Mapping[int, str]:
        """Return the names of the nodes' and the masters' living processes; from any thread."""
        masters = [supervised.child for supervised in self.supervisors]
        children = (*dict(self._children).values(), *dict(self._helpers).values(), *masters)
        return {
            child.target.pid: child.target.name
            for child in children
            if child is not None and self._lives(child)
        }

    async def leader(self) -> str | None:
        """Ask all nodes and return the leader of the highest term."""
        await self.watch.ask_all()
        return self.watch.leader()

    async def node_state(self, node: str) -> NodeState:
        """Ask a node what it is."""
        return (await self.watch.ask(node)).state

    def last_states(self) -> Mapping[str, NodeState]:
        """Return what each node last said it was."""
        return {node: view.state for node, view in self.watch.views.items()}

    def node_process(self, node: str) -> Target:
        """Return the process that the node runs in, or ran in last."""
        return self._children[node].target

    async def start_node(self, node: str) -> None:
        """Start a node that is down.

        Raises:
            OSError: The process cannot be started.
        """
        identity, config = Identity("node", node), self._run.node_config(node)
        log = self._run.node_log(node)

        def start(wrap: Wrap, keep: Sequence[int]) -> subprocess.Popen[bytes]:
            with self._network.inside(node):
                child = self._spawn(NODE_MODULE, node, identity, config, log, wrap, keep)
            self._children[node] = child
            return child.process

        await self.gates.start(node, start)
        await trio.lowlevel.checkpoint()

    def _spawn(
        self,
        module: str,
        name: str,
        identity: Identity,
        config: Path,
        log: Path,
        wrap: Wrap = list,
        keep: Sequence[int] = (),
    ) -> Child:
        variables = {
            **variables_of(self._run, module, name, len(self.supervisors)),
            **self._shims.variables(identity, name),
        }
        process = spawn(module, config, log, variables, wrap, keep)
        self._reaper.register(process, identity)
        target = Target.of(process.pid, name)
        self._ledger.process_started(target)
        return Child(target, process)

    def _start_helper(self, module: str, name: str, config: Path, log: Path) -> None:
        self._helpers[name] = self._spawn(module, name, Identity("links"), config, log)

    async def reach_s(self, source: str, target: str, timeout_s: float) -> float | None:
        """Return after how many seconds a new connection carried bytes; None if none did."""
        return await reach_s(self._network, source, target, timeout_s)

    async def is_answering(self, node: str) -> bool:
        """Whether a node says anything about itself."""
        return (await self.watch.ask(node)).health is not None

    async def wait_node_healthy(self, node: str, timeout_s: float) -> bool:
        """Wait until the node serves and knows a leader; False if it dies or takes longer."""

        async def is_healthy() -> bool:
            return (await self.watch.ask(node)).is_healthy

        return await self._wait(is_healthy, lambda: self.is_node_alive(node), timeout_s)

    async def _wait(
        self,
        condition: Callable[[], Awaitable[bool]],
        is_alive: Callable[[], bool],
        timeout_s: float,
    ) -> bool:
        with trio.move_on_after(timeout_s):
            while is_alive():
                if await condition():
                    return True
                await trio.sleep(_POLL_S)
        return False

    async def wait_exit(self, target: Target) -> int:
        """Wait until the process was reaped and return its raw wait status."""
        return await self._reaper.wait_exit(target.pid)

    def node_data(self, node: str) -> Path:
        """Return the folder of a node's data."""
        return self._run.node_data(node)

    def disk_gate(self, node: str) -> DiskGate:
        """Return the gate before a node's disk."""
        return self.gates.gate(node)

    def administration(self) -> NodeAdministration:
        """Return the operator's side of the nodes."""
        return self._administration

    def set_time_of_day_error(self, node: str, error_us: int) -> None:
        """Make a node's time of day wrong by so much from now on.

        Raises:
            OSError: Its file cannot be written.
        """
        write_offset(self._run.node_time_of_day(node), error_us)

    async def time_of_day_error_us(self, node: str) -> int | None:
        """Ask a node for its time of day and return by how much it is wrong."""
        said_us = await self.watch.ask_time_of_day(node)
        return None if said_us is None else said_us - wall_us()

    def supervisor_clock(self) -> ShimmedClock | None:
        """Return the clock of the supervisor that is hit, if a fault can move it."""
        return None if self._hit is None else self._shims.clock(self._hit.name)

    def backend(self) -> Backend | None:
        """Return None: this system needs no server beside its own nodes."""
        return None

    def supervisor_process(self) -> Target | None:
        """Return the living master, or None; of several the one that was chosen."""
        assert self._hit is not None, "a run of nodes alone has no supervisor"
        child = self._hit.child
        return child.target if child and self._lives(child) else None

    def fork_server(self) -> Target | None:
        """Return the living fork server of that supervisor, or None."""
        status = self._hit.watch.read() if self._hit is not None else None
        master = self.supervisor_process() if status is not None else None
        if status is None or status.fork_server is None or master is None:
            return None
        if status.master != master.pid:
            return None  # It was the one of a master that is dead.
        with suppress(ProcessGoneError):
            return Target.of(status.fork_server, "fork server")
        return None

    def choose_supervisor(self, number: int) -> None:
        """Have faults hit this supervisor, counted from 0, until another one is chosen."""
        self._hit = self.supervisors[number]

    async def start_supervisor(self) -> None:
        """Start the supervisor; of several the one that was chosen.

        Raises:
            OSError: The process cannot be started.
        """
        hit = self._hit
        assert hit is not None, "a run of nodes alone has no supervisor"
        identity = Identity("master", hit.name if len(self.supervisors) > 1 else None)
        config, log = self._run.config_of(hit.name), self._run.log_of(hit.name)
        with self._network.inside(WORKERS):
            hit.child = self._spawn(SUPERVISOR_MODULE, hit.name, identity, config, log)
        await trio.lowlevel.checkpoint()

    async def run_stranger(self, config: Path, log: Path) -> int:
        """Run a supervisor that is to be refused; kill it if it goes on.

        Returns:
            Its raw wait status.

        Raises:
            OSError: The process cannot be started.
        """
        child = self._spawn(SUPERVISOR_MODULE, "stranger", Identity("stranger"), config, log)
        with trio.move_on_after(_STRANGER_S):
            return await self._reaper.wait_exit(child.target.pid)
        os.kill(child.target.pid, signal.SIGKILL)
        return await self._reaper.wait_exit(child.target.pid)

    async def wait_supervisor_ready(self, timeout_s: float) -> bool:
        """Wait until all workers have started; False if the master dies or takes longer."""
        hit, target = self._hit, self.supervisor_process()
        if hit is None or target is None:
            return False
        pid = target.pid

        async def is_ready() -> bool:
            await trio.lowlevel.checkpoint()
            return hit.watch.is_ready(pid, self._scenario.workers)

        return await self._wait(is_ready, lambda: self.supervisor_process() is not None, timeout_s)

    def workers(self) -> Sequence[WorkerView]:
        """Return the workers that the supervisor last named; of several the one that was chosen."""
        return [] if self._hit is None else self._hit.workers()

    def supervisor_of(self, worker: int) -> int:
        """Return the number of the supervisor that named this worker; 0 if none does."""
        named = ({view.pid for view in each.workers()} for each in self.supervisors)
        return next((number for number, pids in enumerate(named) if worker in pids), 0)

    async def start_all(self) -> None:
        """Start the nodes, wait for a leader, then start the supervisor and its workers, if any.

        Raises:
            NodeStartError: Something did not come up in time; ends with its log's last lines.
        """
        await self._network.start(self._run, self._start_helper)
        for node in self.nodes():
            await self.start_node(node)
        for node in self.nodes():
            if not await self.wait_node_healthy(node, START_DEADLINE_S):
                raise self._not_up(node, self.is_node_alive(node))
        for number, each in enumerate(self.supervisors):
            self.choose_supervisor(number)
            await self.start_supervisor()
            if not await self.wait_supervisor_ready(START_DEADLINE_S):
                raise self._not_up(each.name, self.supervisor_process() is not None)
        if self.supervisors:
            self.choose_supervisor(0)

    def _not_up(self, name: str, is_alive: bool) -> NodeStartError:
        masters = {each.name: each.child for each in self.supervisors}
        log = self._run.log_of(name) if name in masters else self._run.node_log(name)
        if is_alive:
            happened = f"is not ready after {START_DEADLINE_S:g} s"
        else:
            child = masters[name] if name in masters else self._children[name]
            assert child is not None, f"{name} was never started"
            happened = f"ended while starting: {child.process.returncode}"
        return NodeStartError(f"{name} {happened}; {log} ends with\n{log_tail(log)}")

    async def revive(self) -> Mapping[str, int]:
        """Start what is down although every fault has healed; return raw wait statuses by name."""
        down: dict[str, int] = {}
        for name, child in self._helpers.items():
            if not self._lives(child):
                raise HarnessError(f"{name} (pid {child.target.pid}) ended in mid-run")
        for node, child in list(self._children.items()):
            status = self._reaper.status(child.target.pid)
            if status is not None:
                down[node] = status
                await self.start_node(node)
        for number, each in enumerate(self.supervisors):
            status = None if each.child is None else self._reaper.status(each.child.target.pid)
            if status is not None:
                down[each.name] = status
                self.choose_supervisor(number)
                await self.start_supervisor()
        return down

    async def stop_all(self) -> Mapping[str, int]:
        """Stop the supervisors, then the nodes, gracefully; return raw wait statuses by name.

        What does not end in its time is killed.
        """
        statuses: dict[str, int] = {}
        grace_s = self._scenario.settings.shutdown_grace_s + SUPERVISOR_MARGIN_S

        async def stop(name: str, child: Child, within_s: float) -> None:
            statuses[name] = await self._stop(child, within_s)

        async with trio.open_nursery() as nursery:
            for each in self.supervisors:
                if each.child is not None:
                    nursery.start_soon(stop, each.name, each.child, grace_s)
        async with trio.open_nursery() as nursery:
            for node, child in self._children.items():
                nursery.start_soon(stop, node, child, _NODE_STOP_S)
        for name, child in self._helpers.items():
            await stop(name, child, _NODE_STOP_S)
        return statuses

    async def _stop(self, child: Child, grace_s: float) -> int:
        for name in (signal.SIGTERM, signal.SIGKILL):
            if self._lives(child):
                os.kill(child.target.pid, name)
            with trio.move_on_after(grace_s):
                return await self._reaper.wait_exit(child.target.pid)
        raise HarnessError(f"{child.target.name} (pid {child.target.pid}) survived SIGKILL")

    async def aclose(self) -> None:
        """Close the connections."""
        await self.watch.aclose()
