"""Every rule of a job at once, on three supervised workers and a real node."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from atleastonce.system.client import calls
from atleastonce.system.jobs import ConnectionSettings, FailedStore, SyncDispatcher

from ..jobs.features.one_node import OneNode
from . import feature_app
from .supervised import Supervised, wait_for

pytestmark = pytest.mark.cluster

SIMPLE: dict[str, Any] = {"prefetch": 1}
FAST: dict[str, Any] = {"prefetch": 4, "ack_async": True, "pop_ahead": True}
GIVEN_UP = {
    "back-off": ["exception", "3", "3"],
    "exceptions": ["exception", "2", "2"],
    "overruns": ["timeout", "1", "1"],
    "never": ["max_attempts", "4", "3"],
}
PATIENCE_S = 60.0
ROOT = str(Path(__file__).resolve().parents[3])


@pytest.fixture
def node(tmp_path: Path) -> Iterator[OneNode]:
    made = OneNode(tmp_path)
    yield made
    made.close()


@pytest.fixture
def supervised_jobs(
    tmp_path: Path, node: OneNode, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Supervised]:
    monkeypatch.setenv("PYTHONPATH", f"{ROOT}{os.pathsep}{os.environ.get('PYTHONPATH', ROOT)}")
    made = Supervised(tmp_path, node.endpoint.port)
    made.config.update(app=f"{feature_app.__name__}:make_app", workers=3)
    made.config["worker"].update(failed_store=str(tmp_path / "failed.db"), partitions=8)
    yield made
    made.end()


def dispatch_all(node: OneNode) -> set[str]:
    """Dispatch every job under its name, and several of some; returns the ids."""
    app = feature_app.make_app()
    address = (node.endpoint.host, node.endpoint.port)
    app.connection = ConnectionSettings(endpoints=(address,), partitions=8)
    dispatcher = SyncDispatcher(node.client)
    ids: set[str] = set()
    for name in app.job_names:
        for copy in range(3 if name in ("alone", "limited", "unique", "plain") else 1):
            job_id = name if copy == 0 else f"{name}-{copy}"
            result = dispatcher.dispatch(app, name, None, job_id=job_id)
            assert (result.status == "duplicate") == (name == "unique" and copy > 0)
            if result.status != "duplicate":
                ids.add(job_id)
    assert dispatcher.dispatch(app, "plain", None, job_id="later", delay_s=1).status == "scheduled"
    return ids | {"later"}


@pytest.mark.parametrize("profile", [SIMPLE, FAST], ids=["simple", "fast"])
def test_every_pickup_carries_the_next_number_and_every_job_ends_as_its_rules_say(
    supervised_jobs: Supervised, node: OneNode, profile: dict[str, Any]
) -> None:
    supervised_jobs.config["worker"].update(profile)
    dispatched_ns = time.monotonic_ns()
    ids = dispatch_all(node)
    supervised_jobs.start()
    wait_for(lambda: ended(supervised_jobs) >= ids, "every job's end", PATIENCE_S)
    wait_for(lambda: node.client.depth("jobs", "jobs").value.pending == 0, "the last acks")
    assert supervised_jobs.stop() == 0
    numbers: dict[str, list[int]] = {job_id: [] for job_id in ids}
    for _, _, job_id, attempt, _ in supervised_jobs.notes("started"):
        numbers[job_id].append(int(attempt))
    # What was prefetched behind a job that timed out was handed back, uncharged.
    assert {
        job: seen for job, seen in numbers.items() if seen != list(range(1, len(seen) + 1))
    } == {}
    gave_up = {line[2]: line[3:] for line in supervised_jobs.notes("gave_up")}
    deadline = gave_up.pop("deadline")
    assert deadline[0] in ("exception", "deadline")
    (line,) = [line for line in supervised_jobs.notes("gave_up") if line[2] == "deadline"]
    assert int(line[0]) - dispatched_ns >= 3e9
    assert gave_up == GIVEN_UP
    buried = {row.transaction_id.split(".")[0] for row in letters(node)}
    assert buried == {*GIVEN_UP, "deadline"}
    store = FailedStore(supervised_jobs.root / "failed.db")
    assert {row.id for row in store.list()} == buried
    store.close()
    check_runs(supervised_jobs)


def check_runs(supervised: Supervised) -> None:
    """What ran, by the handlers' own notes."""
    ran = [line[2] for line in supervised.notes("ran")]
    assert sorted(name for name in ran if name.startswith("plain")) == [
        "plain",
        "plain-1",
        "plain-2",
    ]
    assert [name for name in ran if name.startswith("unique")] == ["unique"]
    assert [name for name in ran if name in ("skipped", "missing")] == []
    limited = sorted(int(line[0]) for line in supervised.notes("ran") if "limited" in line[2])
    assert len(limited) == 3
    assert limited[-1] - limited[0] >= 2e9
    throttled = [int(line[0]) for line in supervised.notes("ran") if line[2] == "throttled"]
    assert len(throttled) == 3
    assert throttled[2] - throttled[0] >= 3e9
    inside = [(int(line[0]), line[1]) for kind in ("in", "out") for line in supervised.notes(kind)]
    assert [kind for _, kind in sorted(inside)] == ["in", "out"] * 3


def ended(supervised: Supervised) -> set[str]:
    """Jobs that will not be picked up again."""
    over = {line[2] for line in supervised.notes("gave_up")}
    return over | {
        line[2] for line in supervised.notes("ended") if line[4] in ("completed", "skipped")
    }


def letters(node: OneNode) -> tuple[Any, ...]:
    """The dead letters."""
    return node.client.call(calls.dlq("jobs", "jobs")).value.messages
