"""Witnesses: the records behind a violation."""

from __future__ import annotations

import msgspec

from .findings import Finding
from .jobs import Job
from .verdict import Json, Violation
from .windows import NS
from .world import World

_AROUND_NS = 5 * NS
_RECORDS_MAX = 200


def make_witness(finding: Finding, world: World) -> Violation:
    """Gather the job's records, in order of time, and the fault windows around a violation.

    Raises:
        OSError: A file of the run is gone.
    """
    job = None if finding.job is None else world.job(finding.job)
    windows = world.windows.around(finding.from_ns - _AROUND_NS, finding.until_ns + _AROUND_NS)
    return Violation(
        rule=finding.rule,
        job=job.name if job else None,
        sentence=finding.sentence if finding.doubt is None else _doubtful(finding),
        records=_records(job, world) if job else [],
        faults=[window.to_json() for window in windows],
    )


def _doubtful(finding: Finding) -> str:
    return f"{finding.sentence}. But {finding.doubt}"


def _records(job: Job, world: World) -> list[dict[str, Json]]:
    run = world.run
    processes = [run.attempts.processes[delivery.process] for delivery in job.deliveries]
    pids = {(process.boot, process.pid) for process in processes}
    found = [
        *(
            (op.time_ns, _plain("history.jsonl", op))
            for op in run.dispatches.ops([dispatch.row for dispatch in job.dispatches])
        ),
        *(
            (record.t_ns, _plain(f"attempts/{file}", record))
            for file, record in run.attempts.records(world.rows_of(job.number))
        ),
        *(
            (death.t_ns, _plain("deaths.jsonl", death))
            for death in run.deaths
            if (death.boot, death.pid) in pids
        ),
        *(
            (hand_back.t_ns, _plain("handbacks.jsonl", hand_back))
            for hand_back in run.hand_backs
            if job.name in hand_back.unstarted or job.name in hand_back.ran
        ),
    ]
    found.sort(key=lambda entry: entry[0])
    return [record for _, record in found[:_RECORDS_MAX]]


def _plain(file: str, record: msgspec.Struct) -> dict[str, Json]:
    fields: dict[str, Json] = msgspec.to_builtins(record)
    return {"file": file, **fields}
