"""Each kind of fault changes a run in the way it claims, and the cluster survives it."""

from __future__ import annotations

import pytest

from atleastonce.verifier.simulation import simulation
from atleastonce.verifier.simulation.faults import KINDS, LEADER, Fault, random_schedule
from atleastonce.verifier.simulation.knobs import Knobs
from atleastonce.verifier.simulation.simulation import Outcome, Scenario, run
from atleastonce.verifier.simulation.streams import Stream

KNOBS = Knobs(length_us=4_000_000)


def run_with(*faults: Fault) -> Outcome:
    outcome = run(Scenario(3, KNOBS, faults))
    assert outcome.violation is None
    return outcome


def test_a_run_without_faults_elects_once_and_loses_nothing() -> None:
    counters = run_with().counters
    assert (counters.elections, counters.crashes, counters.lost) == (1, 0, 0)
    assert counters.unknown < 20  # Clients look for the first leader.
    assert counters.acked > 100
    assert counters.reads > 50


@pytest.mark.parametrize(
    ("kind", "level", "counter"),
    [
        ("isolate", 0, "lost"),
        ("deafen", 0, "lost"),
        ("mute", 0, "lost"),
        ("bounce", 0, "crashes"),
        ("snipe", 0, "snipes"),
        ("snipe", 1, "snipes"),
        ("power", 0, "crashes"),
        ("pause", 0, "pauses"),
        ("noise", 3, "doubled"),
        ("transfer", 0, "transfers"),
        ("kill-chain", 20, "crashes"),
    ],
)
def test_a_fault_bites(kind: str, level: int, counter: str) -> None:
    outcome = run_with(Fault(1_500_000, kind, LEADER, 1_500_000, level))
    assert getattr(outcome.counters, counter) > 0
    if kind not in ("noise", "mute"):
        assert outcome.counters.elections > 1


def test_a_snipe_on_a_vote_waits_for_a_vote() -> None:
    quiet = run_with(Fault(1_500_000, "snipe", 1, 100_000, 2))
    assert quiet.counters.snipes == 0
    outcome = run_with(
        Fault(1_500_000, "snipe", 1, 100_000, 2), Fault(1_600_000, "bounce", LEADER, 900_000)
    )
    assert outcome.counters.snipes == 1


def test_a_split_cuts_the_links_between_its_sides_only() -> None:
    assert run_with(Fault(1_500_000, "split", 0b011, 1_000_000)).counters.lost > 0
    whole = run_with(Fault(1_500_000, "split", 0b111, 1_000_000))
    assert whole.counters.lost == 0


def test_a_slow_disk_of_a_majority_holds_commits_up() -> None:
    slow = run_with(
        Fault(1_000_000, "slow-disk", 0, 3_000_000, 500),
        Fault(1_000_000, "slow-disk", 1, 3_000_000, 500),
        Fault(1_000_000, "slow-disk", 2, 3_000_000, 500),
    )
    assert slow.counters.acked < run_with().counters.acked / 2


def test_overlapping_crashes_keep_a_node_down_until_the_last_ends() -> None:
    outcome = run_with(
        Fault(1_000_000, "bounce", 0, 300_000),
        Fault(1_100_000, "bounce", 0, 1_000_000),
        Fault(1_200_000, "pause", 0, 2_000_000),
    )
    assert outcome.counters.crashes == 1


def test_the_swarm_draws_every_kind_and_no_run_draws_all() -> None:
    kinds: set[str] = set()
    for seed in range(60):
        schedule = random_schedule(Stream(seed, "schedule"), Knobs())
        drawn = {fault.kind for fault in schedule}
        assert schedule
        assert len(drawn) < len(KINDS)
        assert list(schedule) == sorted(schedule, key=lambda fault: fault.at_us)
        kinds |= drawn
    assert kinds == set(KINDS)


def test_more_messages_than_the_load_explains_are_a_violation(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(simulation, "SENT_PER_OPERATION_MAX", 0)
    monkeypatch.setattr(simulation, "SENT_PER_S_MAX", 0)
    outcome = run(Scenario(3, KNOBS, ()))
    assert outcome.violation is not None
    assert outcome.violation.oracle == "message-storm"
