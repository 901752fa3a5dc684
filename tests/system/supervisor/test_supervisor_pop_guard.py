"""Workers that get no jobs: an outage is told, a defect ends them."""

from __future__ import annotations

import signal

import pytest

from .scripted_broker import ScriptedBroker
from .supervised import Supervised, is_alive, wait_for

pytestmark = pytest.mark.cluster


@pytest.mark.parametrize("outage", ["refuses_pops", "pops_hang"])
def test_an_outage_leaves_workers_alive_and_unready_until_it_is_over(
    supervised: Supervised, broker: ScriptedBroker, outage: str
) -> None:
    supervised.config["not_consuming_after_s"] = 1.0
    supervised.start()
    assert supervised.codes("--check") == []
    pids = {worker["pid"] for worker in supervised.workers()}
    setattr(broker, outage, True)
    wait_for(lambda: supervised.codes("--check") == ["not-consuming"], "that it is not ready")
    assert supervised.codes("--check-liveness") == []
    assert supervised.codes("--check-capacity") == ["not-consuming", "below-capacity"]
    assert "gets no jobs" in supervised.command("status").stdout
    setattr(broker, outage, False)
    wait_for(lambda: supervised.codes("--check-capacity") == [], "that it is ready again")
    assert {worker["pid"] for worker in supervised.workers()} == pids


def test_planted_bug_has_workers_that_get_nothing_count_as_ready(
    supervised: Supervised, broker: ScriptedBroker
) -> None:
    supervised.config.update(
        not_consuming_after_s=0.2, bugs=["failing-pops-count-as-capacity"], workers=1
    )
    broker.refuses_pops = True
    supervised.start()
    wait_for(lambda: "pop failed" in supervised.log(), "a failed pop")
    wait_for(lambda: supervised.log().count("pop failed") >= 4, "four failed pops")
    assert supervised.codes("--check-capacity") == []


def test_a_worker_whose_pops_raise_ends_with_1_and_soon_opens_the_circuit(
    supervised: Supervised, broker: ScriptedBroker
) -> None:
    supervised.config.update(app="supervised_app:break_pops", workers=1, restart_backoff_max_s=20.0)
    supervised.launch()
    wait_for(lambda: supervised.status().get("circuit") == "open", "the open circuit")
    deaths = supervised.lines("deaths.jsonl")
    assert [(d["exit"], d["marker"]) for d in deaths] == [(1, None)] * 5
    assert "TypeError: a pop of something else" in supervised.log()
    assert supervised.codes("--check-liveness") == []
    assert supervised.codes("--check") == ["no-workers"]
    assert supervised.codes("--check-capacity") == ["no-workers", "below-capacity", "circuit"]


@pytest.mark.parametrize(
    ("bugs", "ending"), [([], None), (["forked-child-stops-renewal"], signal.SIGKILL)]
)
def test_a_child_that_a_job_forked_leaves_its_parents_leases_alone_unless_planted(
    supervised: Supervised, broker: ScriptedBroker, bugs: list[str], ending: int | None
) -> None:
    supervised.config.update(bugs=bugs, workers=1)
    broker.push("fork_and_wait", "a")
    supervised.start()
    (worker,) = [w["pid"] for w in supervised.workers()]
    if ending is None:
        wait_for(lambda: supervised.notes("done"), f"the job's end\n{supervised.log()}")
        assert is_alive(worker)
        assert broker.requests("/extend")
    else:
        wait_for(lambda: supervised.lines("deaths.jsonl"), "the parent's death")
        assert supervised.lines("deaths.jsonl")[0]["signal"] == ending
        assert "lease channel lost" in supervised.log()
