"""Workloads by name: which processes they need, what their clients do, and what judges them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from ..checkers.attempts import check_attempts
from ..checkers.broker_contract import (
    CLAIM_RULES,
    LOG_RULES,
    QUEUE_RULES,
    broker_contract_from_json,
)
from ..checkers.claim_checker import check_claim
from ..checkers.contract import RULES, contract_from_json
from ..checkers.lane_checker import check_lane
from ..checkers.lane_contract import LANE_RULES, lane_contract_from_json
from ..checkers.log_checker import check_log
from ..checkers.queue_checker import check_queue
from ..checkers.soak_checker import check_soak
from ..checkers.soak_contract import SOAK_RULES, soak_contract_from_json
from ..checkers.verdict import Json, Verdict
from ..histories.folder import RunRecords
from ..system.client import Endpoint
from .activity import Activity, Load
from .claim import ClaimActivity
from .jobs import QUEUE
from .log import LogActivity
from .pinned import ClientRecorder
from .queue import QueueActivity

LANE: Final = "lane"
SOAK: Final = "soak"

Check = Callable[[RunRecords, dict[str, Json]], Verdict]
MakeActivity = Callable[[Load, Mapping[str, Endpoint], ClientRecorder], Activity]


@dataclass(frozen=True, slots=True)
class JobsPart:
    """What a workload of jobs needs besides nodes: a supervisor and its workers.

    Attributes:
        queue: The queue that its jobs go through.
        app: `module:attribute` of the application that its workers run.
        contract: Name of the contract that judges it.
    """

    queue: str
    app: str
    contract: str


@dataclass(frozen=True, slots=True)
class WorkloadSpec:
    """One workload.

    Attributes:
        name: What `verify run` takes.
        sentence: What it does, in one sentence.
        rate: Its operations a second, unless the caller says otherwise.
        rules: The rules that judge it, a sentence each.
        check: Judges its records by a contract as `scenario.json` holds it; raises ContractError.
        jobs: What its jobs need; None where clients speak to the nodes alone.
        activity: Makes what its clients do; None where the verifier runs its jobs.
    """

    name: str
    sentence: str
    rate: float
    rules: Mapping[str, str]
    check: Check
    jobs: JobsPart | None = None
    activity: MakeActivity | None = None


WORKLOADS: Final[dict[str, WorkloadSpec]] = {
    spec.name: spec
    for spec in (
        WorkloadSpec(
            name="jobs",
            sentence="short, long, flaky, bad, delayed and overrunning jobs through any node",
            rate=20,
            rules=RULES,
            check=lambda run, plain: check_attempts(run, contract_from_json(plain)),
            jobs=JobsPart(
                queue=QUEUE,
                app="atleastonce.workloads.jobs_app:make_application",
                contract="atleastonce",
            ),
        ),
        WorkloadSpec(
            name=LANE,
            sentence="one failure lane: a job mix and a fault at an observed moment; see --lane",
            rate=1,
            rules={**RULES, **LANE_RULES},
            check=lambda run, plain: check_lane(run, lane_contract_from_json(plain)),
            jobs=JobsPart(
                queue=QUEUE,
                app="atleastonce.workloads.lanes.application:make_application",
                contract="atleastonce",
            ),
        ),
        WorkloadSpec(
            name=SOAK,
            sentence="a long run with kills, a deploy and new code; memory is judged: verify soak",
            rate=5,
            rules={**RULES, **SOAK_RULES},
            check=lambda run, plain: check_soak(run, soak_contract_from_json(plain)),
            jobs=JobsPart(
                queue=QUEUE,
                app="atleastonce.workloads.jobs_app:make_application",
                contract="atleastonce",
            ),
        ),
        WorkloadSpec(
            name="queue",
            sentence="messages are enqueued, popped in leased batches and acked; nodes alone",
            rate=100,
            rules=QUEUE_RULES,
            check=lambda run, plain: check_queue(run, broker_contract_from_json(plain)),
            activity=QueueActivity,
        ),
        WorkloadSpec(
            name="log",
            sentence="records or transactions are appended and read by offset; nodes alone",
            rate=100,
            rules=LOG_RULES,
            check=lambda run, plain: check_log(run, broker_contract_from_json(plain)),
            activity=LogActivity,
        ),
        WorkloadSpec(
            name="claim",
            sentence="clients race to put their own value under a key, and read it; nodes alone",
            rate=100,
            rules=CLAIM_RULES,
            check=lambda run, plain: check_claim(run, broker_contract_from_json(plain)),
            activity=ClaimActivity,
        ),
    )
}
