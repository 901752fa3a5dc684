"""Each kind of fault changes a run in the way it claims, and the cluster survives it."""

from __future__ import annotations

import pytest

from atleastonce.verifier.simulation import simulation
from atleastonce.verifier.simulation.faults import KINDS, LEADER, Fault, random_schedule
from atleastonce.verifier.simulation.knobs import Knobs
from atleastonce.verifier.simulation.simulation import Outcome, Scenario, run
from atleastonce.verifier.simulation.streams import Stream
from atleastonce.verifier.simulation.tokens import decode_token

KNOBS = Knobs(length_us=4_000_000)

HANDING_OVER = (
    "sim1.eNpN0LFOwzAQBmCHghBioPAMSGwVFQMsILHC0o0FyTjJNbHqnC3bQS0LCHVjaBfEC7RpEJWgiDdgbp6"
    "hGxILA2IuSduh4313_53ldmK8ECLmJKplQ4nJQaVarRwmUjNPQCr4NSAYkxoPkGku2z0D4I_VQ7-B0jWdZwE"
    "Y2JDGJiM3O6SP0gdTegUBnuUSaWRoxHHsdIchMG1dYDa38_eINSlTCtCngFZzMM7bkrktm8tHIRzrggehXbT"
    "MysATPM-Y1dSGHBuz087R3VAD86kCnb_UkqFiLSGZn59nzdKLYr7PMSgKMjAt9PLUuDIZBlrGinoyirj9HM0"
    "XU8sjkLGdLT7eIGnxQ34s4OkxI5v3Z4krY_RgmhfslOS2f1HuGyW4XcvI9mhS0MlebU5ORrb-oKDaV3WRJBl"
    "Zp5eFXcFtajVDUwc9JYXw3848WMpIebRbEP58Lw_13Dgw3X8lwrbp"
)


CHANGING = Knobs(
    length_us=4_000_000, spares=1, checkpoint_every=10, think_us=10_000, change_pause_us=100_000
)


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


def test_checkpoints_compact_logs_and_a_node_that_was_away_needs_a_snapshot() -> None:
    knobs = Knobs(length_us=4_000_000, checkpoint_every=5, think_us=10_000)
    outcome = run(Scenario(3, knobs, (Fault(500_000, "bounce", 1, 2_000_000),)))
    assert outcome.violation is None
    assert outcome.counters.compactions > 10
    assert outcome.counters.snapshots >= 1
    assert outcome.counters.installs >= 1


def test_a_long_enough_log_tail_saves_the_snapshot() -> None:
    knobs = Knobs(length_us=4_000_000, checkpoint_every=5, think_us=10_000, log_tail=10_000)
    outcome = run(Scenario(3, knobs, (Fault(500_000, "bounce", 1, 2_000_000),)))
    assert outcome.violation is None
    assert outcome.counters.checkpoints > 10
    assert outcome.counters.snapshots == 0


def test_an_operator_changes_the_membership_while_clients_write() -> None:
    outcome = run(Scenario(3, CHANGING, ()))
    assert outcome.violation is None
    assert outcome.counters.changes > 5
    assert outcome.counters.acked > 100


def test_a_wiped_node_loses_its_disk_and_is_replaced() -> None:
    outcome = run(Scenario(3, CHANGING, (Fault(1_000_000, "wipe", 1, 300_000),)))
    assert outcome.violation is None
    assert outcome.counters.wipes == 1
    assert outcome.counters.installs >= 1


def test_a_disk_that_the_majority_needs_is_not_wiped() -> None:
    faults = (Fault(1_000_000, "wipe", 1, 300_000), Fault(1_500_000, "wipe", 2, 300_000))
    outcome = run(Scenario(3, KNOBS, faults))
    assert outcome.violation is None
    assert outcome.counters.wipes == 1


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


def test_a_paused_leader_may_be_cut_by_a_successor_whose_own_successor_kept_the_entry() -> None:
    # n2 wrote entry 95 in term 2 and is paused; n3 leads term 3 without the entry, n1 term 4 with
    # it, and commits it. When n2 goes on it hears n3 first, drops the entry, and gets it back.
    knobs = Knobs(
        nodes=5,
        election_ms_min=200,
        heartbeat_ms=50,
        max_append_entries=8,
        max_append_bytes=200,
        max_inflight_appends=1,
        clients=4,
        think_us=15_000,
        sync_us=12_000,
        group_commit=False,
    )
    faults = (Fault(1_088_936, "transfer", LEADER, 0), Fault(1_687_019, "pause", LEADER, 917_643))
    outcome = run(Scenario(24_612, knobs, faults))
    assert outcome.violation is None
    assert outcome.counters.elections == 4
    assert outcome.counters.truncations >= 2


def test_a_leader_that_is_handing_over_while_all_heals_takes_a_write_later() -> None:
    # The leader refused the write that liveness demands, kept its leadership, and was not asked
    # again.
    outcome = run(decode_token(HANDING_OVER).scenario)
    assert outcome.violation is None


def test_more_messages_than_the_load_explains_are_a_violation(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(simulation, "SENT_PER_OPERATION_MAX", 0)
    monkeypatch.setattr(simulation, "SENT_PER_S_MAX", 0)
    outcome = run(Scenario(3, KNOBS, ()))
    assert outcome.violation is not None
    assert outcome.violation.oracle == "message-storm"
