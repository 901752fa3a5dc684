"""What a run's workload does, made from its scenario."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from ..nemesis.fault import Fault
from ..system.client import AsyncClient, Endpoint
from ..workloads.activity import Activity, Load
from ..workloads.registry import WORKLOADS, JobsPart
from .config import CONSUMER_GROUP
from .drain import Drain, Quiet
from .load import produce
from .progress import AttemptTail
from .recorder import Recorder
from .scenario import Scenario
from .store import RunPaths

Inject = Callable[[Fault, int | None, int | None], Awaitable[None]]
RunStranger = Callable[[Path, Path], Awaitable[int]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """What an activity may use.

    Attributes:
        scenario: What the run is to be.
        run: Its folder.
        endpoints: Where each node serves clients.
        client: Asks any node, again until its deadline.
        recorder: Where operations go.
        tail: Follows the workers' attempt logs.
        inject: Applies a fault now, until it has recovered: to this worker alone if one is named by
            its pid, to this supervisor if one is named by its number, else to that of the worker.
        run_stranger: Runs a supervisor that is to be refused, by configuration and log; returns its
            raw wait status.
    """

    scenario: Scenario
    run: RunPaths
    endpoints: Mapping[str, Endpoint]
    client: AsyncClient
    recorder: Recorder
    tail: AttemptTail
    inject: Inject
    run_stranger: RunStranger


class JobsActivity:
    """Producers dispatch jobs; at the end the stores of what was given up are read back."""

    def __init__(self, stage: Stage, jobs: JobsPart) -> None:
        self._stage = stage
        self._jobs = jobs

    async def prepare(self) -> None:
        """Nothing: the first dispatch makes the queue."""

    async def load(self) -> None:
        """Dispatch; one that is open at the time limit has its own deadline to end in."""
        stage = self._stage
        await produce(stage.scenario, stage.endpoints, stage.client, stage.recorder)

    async def finish(self) -> None:
        """Wait until nothing is left, then read dead letters and failed jobs back."""
        stage, settings = self._stage, self._stage.scenario.settings
        drain = Drain(stage.client, stage.recorder, stage.tail, self._jobs.queue, CONSUMER_GROUP)
        quiet = Quiet(settings.retry_after_s + settings.drain_margin_s, settings.drain_deadline_s)
        await drain.wait(quiet)
        await drain.read_dead_letters()
        drain.read_failed_jobs(stage.run.failed_jobs)


def make_plain_activity(stage: Stage) -> Activity:
    """Make what the scenario's workload does, unless it is a lane."""
    scenario, spec = stage.scenario, WORKLOADS[stage.scenario.workload]
    if spec.activity is None:
        assert spec.jobs is not None, f"workload {spec.name} does nothing"
        return JobsActivity(stage, spec.jobs)
    settings = scenario.settings
    load = Load(
        seed=scenario.seed,
        rate=scenario.rate,
        time_limit_s=scenario.time_limit_s,
        clients_per_node=settings.clients_per_node,
        partitions=settings.partitions,
        lease_s=settings.lease_s,
        reack=settings.reack,
        hold=settings.hold,
        hang_up=settings.hang_up,
        resend=settings.resend,
        resend_after_s_max=settings.resend_after_s_max,
        txn=settings.txn,
        try_timeout_s=settings.client_timeout_s,
        settle_s=settings.settle_s,
        final_s=settings.drain_deadline_s,
    )
    return spec.activity(load, stage.endpoints, stage.recorder)
