"""From a request to a scenario."""

from __future__ import annotations

import dataclasses

from atleastonce.histories.host import Host
from atleastonce.system.bugs import BUGS
from atleastonce.verifier.lane_scenario import make_any_scenario
from atleastonce.verifier.scenario import Request, make_scenario

REQUEST = Request(
    workload="jobs",
    nemeses=(),
    nodes=3,
    workers=4,
    time_limit_s=40,
    rate=20,
    interval_s=5,
    seed=7,
    settings=(),
    bugs=(),
)


def test_nothing_breaks_unless_asked_for() -> None:
    scenario = make_scenario(REQUEST)

    assert scenario.nemeses == ("none",)
    assert scenario.plan == ()
    assert scenario.notes == ()


def test_same_seed_gives_the_same_plan() -> None:
    request = dataclasses.replace(REQUEST, nemeses=("kill-leader", "kill-worker"))

    assert make_scenario(request).plan == make_scenario(request).plan
    assert make_scenario(request).plan


def test_seed_is_drawn_if_left_out() -> None:
    request = dataclasses.replace(REQUEST, seed=None)

    assert make_scenario(request).seed != make_scenario(request).seed


def test_bug_brings_its_nemesis_and_settings_and_says_so() -> None:
    scenario = make_scenario(dataclasses.replace(REQUEST, bugs=("ack-before-fsync",)))

    assert scenario.nemeses == ("kill-all",)
    assert scenario.settings.disk == "lossy"
    assert scenario.settings.checkpoint_ms == 3_600_000
    chosen = "--nemesis kill-all --set disk=lossy --set checkpoint_ms=3600000"
    assert scenario.notes == (f"ack-before-fsync: chose {chosen}",)


def test_nemesis_given_by_hand_is_kept_beside_the_settings_that_fit() -> None:
    request = dataclasses.replace(REQUEST, bugs=("ack-before-fsync",), nemeses=("kill-leader",))

    scenario = make_scenario(request)

    assert scenario.nemeses == ("kill-leader",)
    assert scenario.settings.disk == "lossy"
    chosen = "--set disk=lossy --set checkpoint_ms=3600000"
    assert scenario.notes == (f"ack-before-fsync: chose {chosen}",)


def test_setting_given_by_hand_beats_the_fitting_one() -> None:
    request = dataclasses.replace(REQUEST, bugs=("ack-before-fsync",), settings=("disk=real",))

    assert make_scenario(request).settings.disk == "real"


def test_bugs_of_two_nemeses_bring_both() -> None:
    bugs = ("dedup-lost-on-failover", "crash-charges-prefetched", "lease-ignored-on-pop")

    scenario = make_scenario(dataclasses.replace(REQUEST, bugs=bugs))

    assert scenario.nemeses == ("kill-leader", "kill-worker")


def test_workload_left_out_is_jobs_or_the_one_that_shows_the_bug() -> None:
    request = dataclasses.replace(REQUEST, workload="")
    shown = make_scenario(dataclasses.replace(request, bugs=("ack-forgotten-on-failover",)))

    assert make_scenario(request).workload == "jobs"
    assert shown.workload == "queue"
    assert shown.notes[0].startswith("ack-forgotten-on-failover: chose queue --nemesis kill-leader")


def test_workload_of_nodes_alone_has_no_workers_and_a_rate_of_its_own() -> None:
    request = dataclasses.replace(REQUEST, workload="queue", rate=None)

    scenario = make_scenario(request)

    assert (scenario.workers, scenario.rate, scenario.is_supervised) == (0, 100, False)
    assert make_scenario(dataclasses.replace(request, rate=7)).rate == 7
    assert make_scenario(dataclasses.replace(request, workload="jobs")).rate == 20


def test_every_real_bug_makes_a_scenario_at_the_defaults() -> None:
    for name, bug in BUGS.items():
        if not bug.is_simulated:
            request = dataclasses.replace(REQUEST, workload="", bugs=(name,))
            assert make_any_scenario(request).bugs == (name,)


def test_stored_scenario_holds_size_settings_plan_and_versions() -> None:
    scenario = make_scenario(dataclasses.replace(REQUEST, nemeses=("kill-leader",)))

    stored = scenario.stored(123, Host("host", "boot"), {"name": "c"})

    assert stored.settings["nodes"] == 3
    assert stored.settings["prefetch"] == 4
    assert len(stored.plan) == len(scenario.plan)
    assert stored.plan[0]["kind"] == "kill-leader"
    assert {"atleastonce", "python", "kernel"} <= set(stored.versions)
    assert (stored.origin_ns, stored.contract) == (123, {"name": "c"})
