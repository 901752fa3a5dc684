"""A job that forks, under a supervisor that renews its lease, on a real node."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from atleastonce.system.jobs import ConnectionSettings, SyncDispatcher

from ..jobs.features.one_node import OneNode
from .supervised import Supervised, wait_for

pytestmark = pytest.mark.cluster


@pytest.fixture
def node(tmp_path: Path) -> Iterator[OneNode]:
    made = OneNode(tmp_path)
    yield made
    made.close()


@pytest.fixture
def forking(tmp_path: Path, node: OneNode) -> Iterator[Supervised]:
    made = Supervised(tmp_path, node.endpoint.port)
    made.config["app"] = "forking_app:make_app"
    made.config["workers"] = 1
    made.config["worker"].update(retry_after_s=4.0, timeout_s=2.5)
    yield made
    made.end()


def test_child_that_ends_takes_neither_its_parents_lease_nor_its_worker(
    forking: Supervised, node: OneNode
) -> None:
    address = (node.endpoint.host, node.endpoint.port)
    where = ConnectionSettings(endpoints=(address,))
    gate = forking.root / "gate"
    forking.start()
    (worker,) = forking.workers()
    dispatcher = SyncDispatcher(node.client)
    first = dispatcher.dispatch(where, "fork", {"file": str(gate)}, timeout_s=0)
    wait_for(lambda: forking.notes("child"), "the child's end")
    started_ns = int(forking.notes("child")[0][0])
    # Longer than a lease: it was renewed after the child had gone.
    wait_for(forking.running, "the job's state")
    wait_for(
        lambda: time.monotonic_ns() - started_ns > 4.5e9, "the end of a lease that nobody renews"
    )
    gate.touch()
    second = dispatcher.dispatch(where, "fork", {"file": str(gate)})
    wait_for(lambda: len(forking.notes("done")) == 2, f"both jobs\n{forking.log()}")
    assert forking.stop() == 0
    pid = str(worker["pid"])
    assert [line[2:] for line in forking.notes("started")] == [
        [first.job_id, "1", pid],
        [second.job_id, "1", pid],
    ]
    assert [line[2] for line in forking.notes("child")] == ["3", "3"]
    assert forking.lines("handbacks.jsonl") == []
