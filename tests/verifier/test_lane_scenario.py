"""From a request for a lane to a scenario."""

from __future__ import annotations

import dataclasses

import pytest

from atleastonce.checkers.contract import load_contract
from atleastonce.checkers.lane_contract import lane_contract_from_json
from atleastonce.system.bugs import BUGS
from atleastonce.verifier.children import NodePorts
from atleastonce.verifier.config import node_config, supervisor_config
from atleastonce.verifier.errors import UsageError
from atleastonce.verifier.judge import contract_of
from atleastonce.verifier.lane_scenario import make_any_scenario
from atleastonce.verifier.network import LoopbackNetwork
from atleastonce.verifier.scenario import Request
from atleastonce.verifier.store import RunPaths
from atleastonce.workloads.lanes.defects import CATCHES
from atleastonce.workloads.lanes.lane import PROFILES
from atleastonce.workloads.lanes.registry import LANES

REQUEST = Request(
    workload="",
    nemeses=(),
    nodes=3,
    workers=4,
    time_limit_s=40,
    rate=None,
    interval_s=5,
    seed=7,
    settings=(),
    bugs=(),
    lane="worker-kill",
)
CELLS = [(lane, profile) for lane in LANES for profile in PROFILES]


def test_a_lane_brings_its_size_settings_and_fault() -> None:
    scenario = make_any_scenario(REQUEST)

    assert (scenario.workload, scenario.nemesis) == ("lane", "worker-kill-plain")
    assert (scenario.nodes, scenario.workers) == (1, 2)
    assert scenario.settings.retry_after_s == pytest.approx(6)
    assert scenario.settings.prefetch == 1
    assert [fault.kind for fault in scenario.plan] == ["kill-worker"]
    assert scenario.notes == ()


def test_what_the_caller_sets_holds() -> None:
    pairs = ("lane_scale=1", "prefetch=2")
    scenario = make_any_scenario(dataclasses.replace(REQUEST, settings=pairs, lane_nodes=3))

    assert scenario.nodes == 3
    assert scenario.settings.retry_after_s == pytest.approx(30)
    assert scenario.settings.prefetch == 2
    contract = lane_contract_from_json(contract_of(scenario))
    assert contract.attempts.bounds.lease_s == pytest.approx(30)


@pytest.mark.parametrize("scale", ["0", "1"])
def test_every_lane_makes_processes_that_take_their_settings(scale: str) -> None:
    nowhere = RunPaths("/nonexistent")
    network = LoopbackNetwork({"n1": NodePorts(client=7001, peer=7002)})
    for lane, profile in CELLS:
        request = dataclasses.replace(REQUEST, lane=lane, profile=profile)
        scenario = make_any_scenario(
            dataclasses.replace(request, settings=(f"lane_scale={scale}",))
        )

        assert node_config(scenario, nowhere, "n1", network).node == "n1"
        assert supervisor_config(scenario, nowhere, network).workers == scenario.workers
        assert scenario.lane is not None
        assert scenario.lane.contract(load_contract()).profile == profile


def test_a_defect_that_only_a_lane_brings_out_chooses_it_and_says_so() -> None:
    request = dataclasses.replace(REQUEST, lane="", bugs=("pop-ahead-always",))
    scenario = make_any_scenario(request)

    assert scenario.nemesis == "trickle-fast"
    assert scenario.notes == ("pop-ahead-always: chose --lane trickle --profile fast",)


def test_a_defect_chooses_the_profile_that_brings_it_out_unless_one_is_named() -> None:
    for catch in CATCHES.values():
        if BUGS[catch.bug].is_simulated:
            continue
        request = dataclasses.replace(REQUEST, lane=catch.lane, bugs=(catch.bug,))
        assert make_any_scenario(request).nemesis == f"{catch.lane}-{catch.profile}"
        named = dataclasses.replace(request, profile="plain")
        assert make_any_scenario(named).nemesis == f"{catch.lane}-plain"


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"lane": "worker-kil"}, ["unknown lane 'worker-kil'", "did you mean 'worker-kill'?"]),
        ({"profile": "slow"}, ["unknown profile 'slow'", "fast, plain"]),
        ({"lane": "", "profile": "fast"}, ["--profile 'fast'", "--lane NAME"]),
        ({"workload": "jobs"}, ["--lane worker-kill brings its own jobs", "leave out jobs"]),
        ({"nemeses": ("kill-all",)}, ["leave out --nemesis kill-all"]),
        ({"lane": "", "workload": "lane"}, ["'lane' is run as --lane NAME"]),
        ({"lane_nodes": 2}, ["--nodes 2", "an odd number"]),
        ({"bugs": ("double-vote",)}, ["'double-vote'", "simulator only"]),
        ({"settings": ("lane_scale=11",)}, ["lane_scale=11", "a number from 0 to 10"]),
        (
            {"lane": "", "workload": "jobs", "bugs": ("pop-ahead-always",)},
            ["'pop-ahead-always' needs a lane", "--lane trickle"],
        ),
    ],
)
def test_what_cannot_be_had_is_one_line(changes: dict[str, object], words: list[str]) -> None:
    with pytest.raises(UsageError) as caught:
        make_any_scenario(dataclasses.replace(REQUEST, **changes))  # type: ignore[arg-type]

    text = str(caught.value)
    assert "\n" not in text
    assert all(word in text for word in words), text
