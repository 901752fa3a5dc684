"""One run from the first process to the last: start, load, drain, read back, stop.

One nursery owns everything. The first Ctrl-C cancels the work and stops the system gracefully; a
second one skips the graceful part. Whatever happens, no process is left when `execute` returns.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Final

import msgspec
import trio

from ..histories.lines import LineWriter
from ..histories.ops import STOP, Json
from ..nemesis.events import Events
from ..nemesis.fault import Fault
from ..nemesis.ledger import Ledger
from ..nemesis.nemesis import run_plan
from ..nemesis.plan_file import needs_events
from ..nemesis.strays import RUN_VARIABLE, mark_of
from ..nemesis.world import Target
from ..system.client import AsyncClient, ClientOptions
from .activities import Stage
from .board import BoardMaker
from .cluster import Cluster
from .cpu_times import CpuTimes
from .deaths import identify_orphan, merge_deaths
from .errors import HarnessError
from .lane_activity import make_activity
from .live import Board
from .memory import memory_sampling
from .network import Network
from .planning import nemesis_settings
from .progress import AttemptTail
from .proof import Proof, prove_health
from .reaper import Reaper, become_subreaper, descendants
from .recorder import Recorder
from .run_events import announce_events
from .sampler import Sampling, name_processes, sampling
from .scenario import Scenario
from .store import RunPaths
from .supervised import Supervised, make_supervised
from .volumes import Volumes, needs_volumes

Show = Callable[[Callable[[], Board]], Awaitable[None]]

_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_REVIVE_S: Final = 15.0


class Ended(msgspec.Struct, kw_only=True):
    """`harness.json`: how a run went, as the harness saw it.

    Attributes:
        phases_s: Seconds by phase, in order.
        interrupted: The phase that a signal ended; empty if none did.
        notes: What happened that nobody planned, one sentence each; they make a run unknown.
        health: The system after the last fault; None where the run did not come so far.
    """

    phases_s: dict[str, float] = {}
    interrupted: str = ""
    notes: list[str] = []
    health: Proof | None = None
    v: int = 1


@dataclass(frozen=True, slots=True)
class Start:
    """A run that is about to begin.

    Attributes:
        scenario: What to run.
        run: Where.
        origin_ns: CLOCK_MONOTONIC from which its times count.
        network: Where everybody lives; held by the caller.
        owner: Whose end undoes a private world; None outside one.
    """

    scenario: Scenario
    run: RunPaths
    origin_ns: int
    network: Network
    owner: Target | None = None


def execute(start: Start, show: Show) -> Ended:
    """Run a scenario in its folder, in the main thread.

    Raises:
        HarnessError: A process did not start, or could not be stopped. It may come inside an
            exception group.
    """
    become_subreaper()
    spared = descendants()
    run = start.run
    # Whatever is started from here on has it, also what is started by what is started.
    os.environ[RUN_VARIABLE] = str(run.path)
    supervisors = make_supervised(run, start.scenario.supervisor_names)
    reaper = Reaper(run.reaped, lambda pid: identify_orphan(supervisors, pid))
    session = _Session(start, reaper, supervisors)
    try:
        session.run(show)
    finally:
        left = reaper.kill_all(spared)
        session.close()
        reaper.close()
        merge_deaths(run)
        run.harness.write_bytes(msgspec.json.encode(session.ended) + b"\n")
    if left:
        raise HarnessError(f"{left} processes of the run survived SIGKILL")
    return session.ended


class _Session:
    """The state of one run while it runs."""

    def __init__(self, start: Start, reaper: Reaper, supervisors: Sequence[Supervised]) -> None:
        self.ended = Ended()
        scenario, run = start.scenario, start.run
        self._start = start
        self._reaper = reaper
        self._ledger = Ledger(run.ledger, start.owner, mark_of(run.path))
        self._cluster = Cluster(scenario, run, start.network, reaper, self._ledger, supervisors)
        self._recorder = Recorder(run.history)
        self._faults = LineWriter(run.faults)
        self._tail = AttemptTail(run.attempts)
        self._phase = "start"
        self._work = trio.CancelScope()
        self._grace = trio.CancelScope()
        settings = scenario.settings
        self._client = AsyncClient(
            tuple(self._cluster.endpoints().values()),
            ClientOptions(settings.try_timeout_s, settings.request_deadline_s),
        )
        stage = Stage(
            scenario=scenario,
            run=run,
            endpoints=self._cluster.endpoints(),
            client=self._client,
            recorder=self._recorder,
            tail=self._tail,
            inject=self._inject,
            run_stranger=self._cluster.run_stranger,
        )
        self._activity = make_activity(stage)

    def run(self, show: Show) -> None:
        """Run all phases while threads sample how processes fare."""
        with (
            LineWriter(self._start.run.scheduling) as samples,
            sampling(CpuTimes(), self._processes(), samples.write) as told,
            self._memory() as also_told,
        ):
            trio.run(self.main, show)
        self.ended.notes += [each.error for each in (told, also_told) if each.error]

    def _processes(self) -> Callable[[], Mapping[int, str]]:
        """Name the processes of the run, for one thread."""
        # Its supervisors are its own, because a watch is read in one thread.
        own = make_supervised(self._start.run, self._start.scenario.supervisor_names)
        watches = [supervised.watch for supervised in own]
        return partial(name_processes, self._cluster.running, watches)

    @contextmanager
    def _memory(self) -> Iterator[Sampling]:
        """Sample the memory of all processes, in a soak."""
        soak = self._start.scenario.soak
        if soak is None:
            yield Sampling()
            return
        with (
            LineWriter(self._start.run.memory) as samples,
            memory_sampling(self._processes(), samples.write, soak.sample_s) as told,
        ):
            yield told

    async def main(self, show: Show) -> None:
        """Run all phases; stop the system whatever ended them."""
        async with trio.open_nursery() as beside:
            await beside.start(self._reaper.run)
            await beside.start(self._heed_signals)
            board = BoardMaker(
                self._cluster,
                self._recorder,
                self._tail,
                self._start.run.faults,
                self._start.scenario.is_supervised,
            )
            beside.start_soon(show, lambda: board.look(self._phase, self._elapsed_s()))
            beside.start_soon(self._cluster.watch.run)
            beside.start_soon(self._cluster.gates.run)
            try:
                with self._work:
                    await self._work_phases()
                if self._work.cancelled_caught:
                    self.ended.interrupted = self._phase
            finally:
                with trio.CancelScope(shield=True):
                    await self._stop()
            beside.cancel_scope.cancel()

    async def _heed_signals(
        self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
    ) -> None:
        with trio.open_signal_receiver(*_SIGNALS) as signals:
            task_status.started()
            async for _ in signals:
                if self._work.cancel_called or self._phase == "stop":
                    self._grace.cancel()
                self._work.cancel()

    @contextmanager
    def _timed(self, phase: str) -> Iterator[None]:
        self._phase, begun_s = phase, time.monotonic()
        try:
            yield
        finally:
            self.ended.phases_s[phase] = round(time.monotonic() - begun_s, 3)

    def _elapsed_s(self) -> float:
        return (time.monotonic_ns() - self._start.origin_ns) / 1e9

    async def _work_phases(self) -> None:
        with self._timed("start"):
            if needs_volumes(self._start.scenario):
                self._cluster.volumes = Volumes(
                    self._start.run, self._cluster.nodes(), self._ledger
                )
                self._cluster.volumes.mount_all()
            self._cluster.write_configs()
            await self._cluster.start_all()
            await self._activity.prepare()
        with self._timed("load"):
            await self._load()
        with self._timed("heal"):
            await self._revive()
        with self._timed("drain"):
            await self._activity.finish()

    async def _load(self) -> None:
        """Keep clients busy and inject until the time limit.

        Every fault is healed and every operation has ended when this returns.
        """
        scenario = self._start.scenario
        if scenario.lane is not None:
            await self._activity.load()
            return
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._activity.load)
            nursery.start_soon(self._run_plan)
            await trio.sleep(scenario.time_limit_s)

    async def _run_plan(self) -> None:
        """Apply the plan while events of the run are told to the faults that wait for them."""
        scenario, events = self._start.scenario, Events()
        async with trio.open_nursery() as beside:
            if needs_events(scenario.plan):
                beside.start_soon(announce_events, events, self._cluster.watch, self._tail)
            await run_plan(
                scenario.plan,
                self._cluster,
                self._ledger,
                self._faults,
                nemesis_settings(scenario.settings),
                events=events,
                time_limit_s=scenario.time_limit_s,
            )
            beside.cancel_scope.cancel()

    async def _inject(self, fault: Fault, worker: int | None, supervisor: int | None) -> None:
        """Apply one fault now; it is healed, and was watched until it recovered, at the end."""
        if supervisor is None and worker is not None:
            supervisor = self._cluster.supervisor_of(worker)
        if supervisor is not None:
            self._cluster.choose_supervisor(supervisor)
        settings = nemesis_settings(self._start.scenario.settings)
        await run_plan([fault], self._cluster, self._ledger, self._faults, settings, worker)

    async def _revive(self) -> None:
        """Start what is down though no fault holds it, and see the system well.

        A run that needs the one or lacks the other is not valid.
        """
        down = await self._cluster.revive()
        for name, status in down.items():
            how = f"had ended ({describe_status(status)}) though no fault was open"
            self.ended.notes.append(f"{name} {how}; it was started again")
        self.ended.health, missing = await prove_health(
            self._cluster, self._start.run.ledger, list(down), _REVIVE_S
        )
        self.ended.notes += missing

    async def _stop(self) -> None:
        """Stop everything; what a second signal or the deadline leaves over is killed later."""
        with self._timed("stop"):
            op = self._recorder.invoke(STOP)
            with self._grace:
                statuses = await self._cluster.stop_all()
                value: dict[str, Json] = {name: describe_status(s) for name, s in statuses.items()}
                self._recorder.complete(op, "ok", value)
            if self._grace.cancelled_caught:
                self._recorder.complete(op, "info", error="killed on a second signal")
            with trio.move_on_after(1.0):
                await self._client.aclose()
                await self._cluster.aclose()

    def close(self) -> None:
        """Close the files, and unmount what was mounted; usable outside trio."""
        if self._cluster.volumes is not None:
            self._cluster.volumes.close()
        self._recorder.close()
        self._faults.close()
        self._ledger.close()


def describe_status(status: int) -> str:
    """Say a raw wait status in words."""
    if os.WIFSIGNALED(status):
        return signal.Signals(os.WTERMSIG(status)).name
    return f"exit status {os.WEXITSTATUS(status)}"
