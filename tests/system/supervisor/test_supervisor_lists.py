"""A pool whose workers take all its queues in order, on a real node."""

from __future__ import annotations

import os
import signal

import pytest

from .pooled import Pooled, push
from .supervised import wait_for

pytestmark = pytest.mark.cluster
_OPTIONS = """
[master]
app = "supervised_app:make_app"
poll_interval_s = 0.2
shutdown_grace_s = 70
prefork = true
[driver]
partitions = 8
prefetch = 2
lease_renewal = true
pop_ahead = true
renewal_timeout_s = 0.5
renewal_grace_s = 0.5
renewal_margin_s = 0.5
request_timeout_s = 2
[pools.pool]
queues = ["mail", "news"]
balance = "off"
min_processes = 1
max_processes = 1
sleep_s = 0.2
memory_mib = 0
restart_backoff_s = 0.1
"""


def started(pooled: Pooled) -> list[str]:
    return [note[2] for note in pooled.notes("started")]


def test_the_first_queue_of_a_list_goes_first_and_a_killed_worker_costs_no_waiting_job_a_try(
    pooled: Pooled,
) -> None:
    pooled.options = _OPTIONS
    gate = pooled.root / "gate"
    pooled.launch()
    wait_for(lambda: len(pooled.workers()) == 1, f"the worker\n{pooled.log()}")
    push(pooled.port, ("news",), 2, {"file": str(gate)})
    wait_for(lambda: len(pooled.running()) == 1, f"a job of the second queue\n{pooled.log()}")
    push(pooled.port, ("mail",), 2, {"ms": 1}, job="nap")
    (running, pid), *_ = pooled.running().items()
    waiting = {"news0": "news1", "news1": "news0"}[running]
    os.kill(pid, signal.SIGKILL)
    wait_for(lambda: len(started(pooled)) >= 4, f"the next worker's jobs\n{pooled.log()}")
    assert set(started(pooled)[1:3]) == {"mail0", "mail1"}
    wait_for(lambda: any(line["unstarted"] for line in pooled.lines("handbacks.jsonl")), "a record")
    (handed,) = [line for line in pooled.lines("handbacks.jsonl") if line["unstarted"]]
    assert (handed["unstarted"], handed["result"]) == ([waiting], "sent")
    assert (waiting, "1") in {(note[2], note[3]) for note in pooled.notes("started")}
    assert pooled.pool()["depths"].keys() == {"mail", "news"}
    gate.touch()
    assert pooled.stop() == 0
