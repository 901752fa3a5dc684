"""A soak at work: dispatch, put new code in place on schedule, read back."""

from __future__ import annotations

import trio

from ..workloads.registry import WORKLOADS
from ..workloads.soak import SoakPlan
from .activities import JobsActivity, Stage
from .lane_control import put_new_code


class SoakActivity:
    """Dispatches a soak's jobs; its faults are in the plan of the scenario."""

    def __init__(self, stage: Stage, plan: SoakPlan) -> None:
        jobs = WORKLOADS[stage.scenario.workload].jobs
        assert jobs is not None, f"workload {stage.scenario.workload} has no workers"
        self._stage = stage
        self._plan = plan
        self._queue = jobs.queue
        self._jobs_activity = JobsActivity(stage, jobs)

    async def prepare(self) -> None:
        """Have the queue forget early what is done.

        Raises:
            BrokerError: The broker does not take it.
        """
        await self._stage.client.configure(self._queue, self._plan.queue_options)

    async def load(self) -> None:
        """Dispatch until the time limit, and ask for new code meanwhile."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._jobs_activity.load)
            await trio.sleep(self._plan.restart_s)
            await put_new_code(self._stage)

    async def finish(self) -> None:
        """Wait until nothing is left, then read dead letters and failed jobs back."""
        await self._jobs_activity.finish()
