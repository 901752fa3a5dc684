"""One lane at work: dispatch, wait for the moment, break something, and see what comes of it."""

from __future__ import annotations

from typing import Final

import trio

from ..checkers.lane_whole import COUNT_POPS
from ..histories.faults import group_faults, read_faults
from ..system.client import BrokerError
from ..system.jobs import ConnectionSettings
from ..workloads.activity import Activity
from ..workloads.lanes.lane import LaneFault, Trigger, When
from ..workloads.lanes.plan import LanePlan
from ..workloads.lanes.producer import LaneProducer
from ..workloads.registry import WORKLOADS, JobsPart
from .activities import JobsActivity, Stage, make_plain_activity
from .config import CONSUMER_GROUP
from .lane_control import keep_asking, put_new_code
from .lane_counts import count_jobs
from .lane_strangers import send_strangers
from .lane_watch import LaneWatch
from .soak_activity import SoakActivity

_POLL_S: Final = 0.01
_TRIGGER_S_MAX: Final = 60.0
"""A moment that has not come by then never comes; the fault was then never seen in effect."""

_SEEN_AGAIN_S: Final = 1.0
"""Beyond the time after which a supervisor has to be ready again, it is asked for so long."""

_DOWN_DEADLINE_S: Final = 0.5
"""A dispatch while the broker is down is given up after this; the broker stays down for longer."""


class LaneActivity:
    """Dispatches a lane's jobs and applies its fault at the observed moment."""

    def __init__(self, stage: Stage, jobs: JobsPart, plan: LanePlan) -> None:
        self._stage = stage
        self._plan = plan
        self._jobs_activity = JobsActivity(stage, jobs)
        self._watch = LaneWatch(stage.run.attempts)
        self._sent = trio.Event()
        self._queue = jobs.queue
        settings = stage.scenario.settings
        connection = ConnectionSettings(
            endpoints=tuple((at.host, at.port) for at in stage.endpoints.values()),
            queue=jobs.queue,
            partitions=settings.partitions,
            consumer_group=CONSUMER_GROUP,
            retry_after_s=settings.retry_after_s,
            try_timeout_s=settings.try_timeout_s,
            deadline_s=settings.request_deadline_s,
        )
        nodes = {f"{at.host}:{at.port}": name for name, at in stage.endpoints.items()}
        self._producer = LaneProducer(stage.client, stage.recorder, connection, nodes)

    async def prepare(self) -> None:
        """Nothing: the first dispatch makes the queue."""

    async def load(self) -> None:
        """Dispatch everything; the fault, if there is one, has healed when this returns."""
        await self._count_pops()
        async with trio.open_nursery() as beside:
            if self._plan.lane.silent_s is not None:
                beside.start_soon(keep_asking, self._stage)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._act)
                await self._send("first", self._stage.scenario.settings.request_deadline_s)
                self._sent.set()
            await trio.sleep(self._seen_again_s())
            beside.cancel_scope.cancel()

    def _seen_again_s(self) -> float:
        """How long a supervisor that is asked about itself is asked after its fault is over."""
        lane = self._plan.lane
        if lane.silent_s is None:
            return 0.0
        return lane.silent_s * self._plan.scale + lane.margin_s + _SEEN_AGAIN_S

    async def finish(self) -> None:
        """Wait until nothing is left, then read dead letters and failed jobs back."""
        await self._wait_for_ends()
        await self._count_pops()
        if self._plan.lane.counts:
            await count_jobs(self._stage, self._queue)
        await self._jobs_activity.finish()

    async def _send(self, when: When, deadline_s: float) -> None:
        """Dispatch what belongs to a phase, group by group."""
        before: list[str] = []
        for group in self._plan.lane.groups:
            if group.when != when:
                continue
            if group.awaits_start:
                await self._wait_for(Trigger(started=tuple(before)))
            jobs = [job for job in self._plan.jobs if job.group == group.name]
            await self._producer.send(jobs, deadline_s)
            before += [job.id for job in jobs]

    async def _act(self) -> None:
        """Do what the lane does beside its first dispatches, and dispatch what comes after it."""
        plan, stage = self._plan, self._stage
        if plan.lane.strangers and await self._wait_for(Trigger(starts=1)):
            await send_strangers(stage, plan.lane.strangers)
        if plan.lane.counts:
            await self._sent.wait()
            await count_jobs(stage, self._queue)
        if plan.restart is not None:
            await self._wait_for(plan.restart)
            await put_new_code(stage)
        if plan.fault is not None and await self._wait_for(plan.fault.when):
            # What was begun is ended, whatever the time.
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._send_while_down)
                nursery.start_soon(self._strike, plan.fault)
                if plan.also is not None:
                    await trio.sleep(plan.also.when.after_s)
                    nursery.start_soon(self._strike, plan.also)
        await self._send("after", stage.scenario.settings.request_deadline_s)

    async def _wait_for(self, trigger: Trigger) -> bool:
        """Wait for a moment; whether it came in time."""
        with trio.move_on_after(_TRIGGER_S_MAX):
            while not self._watch.poll().holds(trigger):
                await trio.sleep(_POLL_S)
            if trigger.after_s > 0:
                await self._sent.wait()
                await trio.sleep(trigger.after_s)
            return True
        return False

    async def _strike(self, fault: LaneFault) -> None:
        pid = self._watch.events.first_pid
        faults = [each for each in self._stage.scenario.plan if each.kind == fault.kind]
        for number, each in enumerate(faults):
            await self._stage.inject(each, pid, number if fault.each else None)

    async def _send_while_down(self) -> None:
        if any(job.when == "down" for job in self._plan.jobs):
            path = self._stage.run.faults
            while not any(fault.bit for fault in group_faults(read_faults(path))):
                await trio.sleep(_POLL_S)
            await self._send("down", _DOWN_DEADLINE_S)

    async def _wait_for_ends(self) -> None:
        """Wait until as many jobs have ended as pops are to be divided by; only where counted."""
        lane, settings = self._plan.lane, self._stage.scenario.settings
        if lane.pops_per_job_max is None:
            return
        with trio.move_on_after(settings.drain_deadline_s):
            while len(self._watch.poll().ended) < len(self._plan.jobs):
                await trio.sleep(_POLL_S)

    async def _count_pops(self) -> None:
        """Ask each node how many pops it answered, where the lane wants to know."""
        if self._plan.lane.pops_per_job_max is None:
            return
        stage = self._stage
        op = stage.recorder.invoke(COUNT_POPS)
        try:
            answers = [(await stage.client.health(at)).value for at in stage.endpoints.values()]
        except BrokerError as error:
            stage.recorder.complete(op, "info", error=str(error))
            return
        pops = sum(int(answer.counters.get("pops", 0)) for answer in answers)
        stage.recorder.complete(op, "ok", {"pops": pops})


def make_activity(stage: Stage) -> Activity:
    """Make what a scenario's workload does."""
    scenario = stage.scenario
    if scenario.soak is not None:
        return SoakActivity(stage, scenario.soak)
    if scenario.lane is None:
        return make_plain_activity(stage)
    jobs = WORKLOADS[scenario.workload].jobs
    assert jobs is not None, f"workload {scenario.workload} has no workers"
    return LaneActivity(stage, jobs, scenario.lane)
