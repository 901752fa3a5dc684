"""From a request for a soak to a scenario."""

from __future__ import annotations

import dataclasses

import pytest
from click.testing import CliRunner

from atleastonce.checkers.soak_contract import soak_contract_from_json
from atleastonce.verifier.children import NodePorts
from atleastonce.verifier.cli import main
from atleastonce.verifier.config import node_config, supervisor_config
from atleastonce.verifier.errors import UsageError
from atleastonce.verifier.judge import contract_of
from atleastonce.verifier.network import LoopbackNetwork
from atleastonce.verifier.soak_scenario import SoakRequest, make_soak_scenario
from atleastonce.verifier.store import RunPaths

REQUEST = SoakRequest(minutes=45, rate=5, workers=8, nodes=3, seed=7)


def test_soak_plans_its_kills_and_its_deploy_in_order() -> None:
    scenario = make_soak_scenario(REQUEST)

    assert [(fault.kind, fault.at_s) for fault in scenario.plan] == [
        ("kill-worker", 600),
        ("kill-worker", 1200),
        ("term-supervisor", 1350),
        ("kill-worker", 1800),
        ("kill-worker", 2400),
    ]
    assert len({fault.id for fault in scenario.plan}) == 5
    assert (scenario.workload, scenario.nemesis, scenario.time_limit_s) == (
        "soak",
        "schedule",
        2700,
    )


@pytest.mark.parametrize("minutes", [0.1, 0.2, 0.5, 1, 2, 45])
def test_every_length_makes_processes_that_take_its_settings(minutes: float) -> None:
    scenario = make_soak_scenario(dataclasses.replace(REQUEST, minutes=minutes))
    nowhere = RunPaths("/nonexistent")
    network = LoopbackNetwork({f"n{n}": NodePorts(7000 + n, 7100 + n) for n in (1, 2, 3)})

    assert node_config(scenario, nowhere, "n1", network).node == "n1"
    assert supervisor_config(scenario, nowhere, network).workers == 8
    contract = soak_contract_from_json(contract_of(scenario))
    assert contract.jobs == pytest.approx(minutes * 60 * 5, rel=0.2)
    assert contract.attempts.bounds.workers == 8
    assert contract.attempts.bounds.lease_s == scenario.settings.retry_after_s


def test_setting_that_the_caller_names_holds() -> None:
    scenario = make_soak_scenario(dataclasses.replace(REQUEST, settings=("prefetch=1",)))

    assert scenario.settings.prefetch == 1


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"minutes": 0}, ["--minutes 0", "from 0.1"]),
        ({"minutes": float("nan")}, ["--minutes nan"]),
        ({"rate": 0}, ["--rate 0", "above 0"]),
        ({"rate": 50}, ["--rate 50 would keep", "--workers is 8", "up to"]),
        ({"workers": 0}, ["--workers 0", "from 1 to 256"]),
        ({"nodes": 2}, ["--nodes 2", "an odd number"]),
        ({"seed": -1}, ["--seed -1"]),
        ({"settings": ("prefech=1",)}, ["unknown setting 'prefech'"]),
    ],
)
def test_what_cannot_be_had_is_one_line(changes: dict[str, object], words: list[str]) -> None:
    with pytest.raises(UsageError) as caught:
        make_soak_scenario(dataclasses.replace(REQUEST, **changes))  # type: ignore[arg-type]

    text = str(caught.value)
    assert "\n" not in text
    assert all(word in text for word in words), text


def test_soak_as_a_workload_of_run_is_sent_to_its_own_command() -> None:
    result = CliRunner().invoke(main, ["run", "soak"])

    assert result.exit_code == 2
    assert "verify soak --minutes N" in result.stderr


def test_length_must_be_said() -> None:
    result = CliRunner().invoke(main, ["soak"])

    assert result.exit_code == 2
    assert "--minutes" in result.stderr
