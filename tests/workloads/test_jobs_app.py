"""The application that the workers run: bodies, and what is written about attempts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from atleastonce.histories.attempts import payload_digest
from atleastonce.system.jobs import (
    Application,
    AttemptAcked,
    AttemptEnded,
    AttemptStarting,
    BatchReceived,
    Cause,
    JobContext,
    JobGaveUp,
    Outcome,
)
from atleastonce.workloads.jobs import JOB_NAME, JobKind
from atleastonce.workloads.jobs_app import (
    ATTEMPTS_VARIABLE,
    CODE_VARIABLE,
    BadJobError,
    make_application,
    work,
)


@pytest.fixture
def app(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Application:
    monkeypatch.setenv(ATTEMPTS_VARIABLE, str(tmp_path))
    monkeypatch.setenv(CODE_VARIABLE, "7")
    return make_application()


def _records(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for path in folder.iterdir() for line in path.read_text().splitlines()]


def _context(attempt: int) -> JobContext:
    return JobContext("j1", JOB_NAME, attempt, 3, "r1", "l1", "jobs", "p-0001")


def test_every_event_becomes_one_record(app: Application, tmp_path: Path) -> None:
    digest = payload_digest({"a": 1})
    app.notify(BatchReceived((("j1", 1, "l1"), ("j2", 1, "l1"))))
    app.notify(AttemptStarting("j1", JOB_NAME, 2, "r1", "l1", {}))
    app.notify(AttemptEnded("j1", JOB_NAME, 2, "r1", "l1", Outcome.THREW, "boom"))
    app.notify(AttemptAcked("j1", "r1"))
    app.notify(JobGaveUp("j1", Cause.EXCEPTION, 2, 2, True, "boom", digest + "f" * 32, "l1"))

    records = _records(tmp_path)

    assert [r["e"] for r in records] == [
        "prefetched",
        "prefetched",
        "started",
        "ended",
        "acked",
        "gave_up",
    ]
    assert {r["code"] for r in records} == {"7"}
    ended, gave_up = records[3], records[5]
    assert (ended["outcome"], ended["error"], ended["attempt"]) == ("threw", "boom", 2)
    assert (gave_up["cause"], gave_up["run"], gave_up["ran"]) == ("exception", "r1", True)
    assert gave_up["digest"] == digest


def test_job_given_up_without_a_run_has_none(app: Application, tmp_path: Path) -> None:
    app.notify(JobGaveUp("j1", Cause.MAX_ATTEMPTS, 4, 3, False, "too often", "0" * 64, "l1"))

    [record] = _records(tmp_path)
    assert record.get("run") is None
    assert record["ran"] is False


def test_only_the_worker_job_is_registered(app: Application) -> None:
    assert app.job_names == (JOB_NAME,)


@pytest.mark.parametrize("kind", [JobKind.SHORT, JobKind.LONG, JobKind.DELAYED, JobKind.OVERRUN])
def test_plain_kinds_complete(kind: JobKind) -> None:
    work(_context(1), {"kind": kind.value, "work_ms": 0, "mark": "x"})


def test_bad_job_throws_on_every_attempt() -> None:
    for attempt in (1, 2):
        with pytest.raises(BadJobError):
            work(_context(attempt), {"kind": "bad", "work_ms": 0})


def test_flaky_job_throws_on_its_first_attempt_alone() -> None:
    with pytest.raises(BadJobError):
        work(_context(1), {"kind": "flaky", "work_ms": 0})
    work(_context(2), {"kind": "flaky", "work_ms": 0})
