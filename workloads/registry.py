"""Workloads by name: what clients do, and which contract judges it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from .jobs import QUEUE


@dataclass(frozen=True, slots=True)
class WorkloadSpec:
    """One workload.

    Attributes:
        name: What `verify run` takes.
        sentence: What it does, in one sentence.
        queue: The queue that its jobs go through.
        app: `module:attribute` of the application that its workers run.
        contract: Name of the contract that judges it.
    """

    name: str
    sentence: str
    queue: str
    app: str
    contract: str


WORKLOADS: Final[dict[str, WorkloadSpec]] = {
    spec.name: spec
    for spec in (
        WorkloadSpec(
            name="jobs",
            sentence="short, long, flaky, bad, delayed and overrunning jobs through any node",
            queue=QUEUE,
            app="atleastonce.workloads.jobs_app:make_application",
            contract="atleastonce",
        ),
    )
}
