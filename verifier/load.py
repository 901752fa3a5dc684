"""The load of a run: its producers."""

from __future__ import annotations

from collections.abc import Mapping

import trio

from ..system.client import AsyncClient, Endpoint
from ..system.jobs import ConnectionSettings, Dispatcher
from ..workloads.jobs import JobKind, Mix, arrivals
from ..workloads.producer import Producer
from ..workloads.registry import WORKLOADS
from ..workloads.soak import soak_mix
from .config import CONSUMER_GROUP
from .recorder import Recorder
from .scenario import Scenario
from .settings import Settings


def make_mix(settings: Settings) -> Mix:
    """Return the workload's mix as the settings want it."""
    return Mix(
        shares={
            JobKind.LONG: settings.share_long,
            JobKind.FLAKY: settings.share_flaky,
            JobKind.BAD: settings.share_bad,
            JobKind.DELAYED: settings.share_delayed,
            JobKind.OVERRUN: settings.share_overrun,
        },
        resend=settings.resend,
        resend_after_s_max=settings.resend_after_s_max,
        timeout_s=settings.job_timeout_s,
    )


def mix_of(scenario: Scenario) -> Mix:
    """Return the mix of a scenario's workload."""
    settings = scenario.settings
    if scenario.soak is None:
        return make_mix(settings)
    return soak_mix(
        scenario.soak.scale,
        settings.job_timeout_s,
        settings.resend,
        settings.resend_after_s_max,
    )


async def produce(
    scenario: Scenario, endpoints: Mapping[str, Endpoint], client: AsyncClient, recorder: Recorder
) -> None:
    """Run all producers until their last answers are in; they share one client's connections."""
    settings, jobs = scenario.settings, WORKLOADS[scenario.workload].jobs
    assert jobs is not None, f"workload {scenario.workload} dispatches no jobs"
    connection = ConnectionSettings(
        endpoints=tuple((at.host, at.port) for at in endpoints.values()),
        queue=jobs.queue,
        partitions=settings.partitions,
        consumer_group=CONSUMER_GROUP,
        retry_after_s=settings.retry_after_s,
        try_timeout_s=settings.try_timeout_s,
        deadline_s=settings.request_deadline_s,
    )
    mix, dispatcher = mix_of(scenario), Dispatcher(client)
    async with trio.open_nursery() as nursery:
        for number in range(settings.producers):
            producer = Producer(dispatcher, recorder, connection, tuple(endpoints))
            due = arrivals(
                mix,
                scenario.seed,
                number,
                scenario.rate / settings.producers,
                scenario.time_limit_s,
                scenario.nodes,
            )
            nursery.start_soon(producer.run, due)
