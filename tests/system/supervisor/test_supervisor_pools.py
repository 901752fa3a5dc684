"""Pools on a real broker node: they grow with a backlog, and shrink after it, job by job."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from .pooled import QUEUES, Pooled, options, push
from .supervised import wait_for

pytestmark = pytest.mark.cluster


def test_a_pool_grows_under_a_backlog_is_spread_over_it_and_shrinks_after_it(
    pooled: Pooled,
) -> None:
    pooled.options = options(0.2)
    gate = pooled.root / "gate"
    pooled.launch()
    wait_for(lambda: len(pooled.workers()) == 1, f"the first worker\n{pooled.log()}")
    push(pooled.port, QUEUES, 12, {"file": str(gate)})
    wait_for(lambda: len(pooled.workers()) == 4, f"four workers\n{pooled.log()}")
    assert pooled.pool()["target"] == 4
    assert all(pooled.crews()[queue] >= 2 for queue in QUEUES)
    wait_for(lambda: len(pooled.running()) == 4, f"four jobs\n{pooled.log()}")
    gate.touch()
    wait_for(lambda: len(pooled.notes("done")) == 24, f"all jobs\n{pooled.log()}", 30)
    wait_for(lambda: len(pooled.workers()) == 1, f"one worker\n{pooled.log()}", 30)
    assert pooled.pool()["depths"] == {"mail": 0, "news": 0}
    starts = Counter((note[2], note[3]) for note in pooled.notes("started"))
    assert set(starts.values()) == {1}
    assert {attempt for _, attempt in starts} == {"1"}
    assert all(death["exit"] == 0 for death in pooled.lines("deaths.jsonl"))
    assert pooled.stop() == 0


def test_new_messages_wake_a_pool_long_before_its_next_poll(pooled: Pooled) -> None:
    pooled.options = options(600, "event_driven = true", "control_ttl_s = 3600")
    gate = pooled.root / "gate"
    push(pooled.port, ("mail",), 1, {"file": str(gate)})
    gate.touch()
    pooled.launch()
    wait_for(lambda: len(pooled.notes("done")) == 1, f"the first job\n{pooled.log()}")
    gate.unlink()
    push(pooled.port, ("mail",), 20, {"file": str(gate)})
    wait_for(lambda: len(pooled.workers()) == 4, f"four workers\n{pooled.log()}", 30)
    gate.touch()
    assert pooled.stop() == 0


def test_a_pool_of_the_time_strategy_learns_how_long_its_jobs_take(pooled: Pooled) -> None:
    learns = ('strategy = "time"', "target_clear_s = 2", "default_runtime_s = 0.001")
    pooled.options = options(0.2, pool=learns)
    push(pooled.port, ("mail",), 60, {"ms": 400}, "nap")
    pooled.launch()
    wait_for(lambda: len(pooled.workers()) == 1, f"the first worker\n{pooled.log()}")
    wait_for(lambda: len(pooled.workers()) == 4, f"four workers\n{pooled.log()}", 30)
    assert pooled.stop() == 0


def test_two_supervisors_that_share_run_the_target_between_them(
    pooled: Pooled, tmp_path: Path
) -> None:
    (tmp_path / "other").mkdir()
    other = Pooled(tmp_path / "other", pooled.port)
    gate = {"file": str(tmp_path / "gate")}
    push(pooled.port, ("mail",), 24, gate)
    pooled.options = other.options = options(
        0.2, "coordination = true", pool=("target_jobs_per_process = 6",)
    )
    try:
        for one in (pooled, other):
            one.launch()
        wait_for(
            lambda: [len(one.workers()) for one in (pooled, other)] == [2, 2],
            f"two workers each\n{pooled.log()}\n{other.log()}",
            30,
        )
        assert [one.pool()["target"] for one in (pooled, other)] == [2, 2]
        (tmp_path / "gate").touch()
        assert other.stop() == 0
        wait_for(lambda: len(pooled.notes("done")) + len(other.notes("done")) == 24, "all jobs", 30)
        assert pooled.stop() == 0
    finally:
        other.end()
