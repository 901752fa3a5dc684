"""Each planted defect of the Raft core is caught, by the oracle that its rule names."""

from __future__ import annotations

import msgspec
import pytest

from atleastonce.system.bugs import BUGS
from atleastonce.verifier.simulation.hunts import HUNTS, hunt
from atleastonce.verifier.simulation.shrink import shrink
from atleastonce.verifier.simulation.simulation import run
from atleastonce.verifier.simulation.tokens import decode_token, encode_token

SEEDS_MAX = {
    # Bound for the test; behind it the seeds it took when this was written, in eight hunts.
    "ack-wrong-term": 10,  # 1 to 2
    "always-truncate": 10,  # 1
    "commit-by-minority": 10,  # 1
    "commit-old-term": 100,  # 1 to 15
    "config-change-before-commit": 60,  # 1 to 9
    "double-vote": 60,  # 1 to 11
    "no-noop-on-win": 20,  # 1 to 4
    "no-up-to-date-check": 100,  # 2 to 25
    "quorum-off-by-one": 10,  # 1
    "snapshot-overwrites-newer-log": 150,  # 1 to 28
    "vote-not-persisted": 100,  # 1 to 17
}

RULES = {name: bug.rule for name, bug in BUGS.items()} | {
    # In a real run its rule is what clients see; the simulator sees the cause.
    "commit-by-minority": "durable-quorum",
}


@pytest.mark.parametrize("bug", sorted(SEEDS_MAX))
def test_a_planted_bug_is_caught_by_its_oracle_and_its_token_reproduces_it(bug: str) -> None:
    catch = hunt(bug, SEEDS_MAX[bug])
    assert catch is not None, f"{bug} not caught in {SEEDS_MAX[bug]} seeds"
    violation = catch.outcome.violation
    assert violation is not None
    assert violation.oracle == RULES[bug], violation
    token = decode_token(encode_token(catch.scenario, violation.oracle))
    assert token.scenario == catch.scenario
    assert run(token.scenario) == catch.outcome


def test_every_bug_that_only_the_simulator_sees_has_a_hunt() -> None:
    assert {name for name, bug in BUGS.items() if bug.is_simulated} <= set(HUNTS)
    assert set(HUNTS) == set(SEEDS_MAX)


@pytest.mark.parametrize("bug", sorted(SEEDS_MAX))
def test_the_same_runs_are_clean_without_the_bug(bug: str) -> None:
    # Otherwise a hunt could catch the simulator instead of the defect.
    catch = hunt(bug, SEEDS_MAX[bug])
    assert catch is not None
    assert run(msgspec.structs.replace(catch.scenario, bugs=())).violation is None


@pytest.mark.parametrize("bug", ["no-up-to-date-check", "double-vote"])
def test_a_failing_schedule_shrinks_and_keeps_its_violation(bug: str) -> None:
    catch = hunt(bug, SEEDS_MAX[bug])
    assert catch is not None
    assert catch.outcome.violation is not None
    oracle = catch.outcome.violation.oracle
    shrunk = shrink(catch.scenario, oracle)
    assert set(shrunk.scenario.schedule) < set(catch.scenario.schedule)
    again = run(shrunk.scenario).violation
    assert again is not None
    assert again.oracle == oracle
    for left_out in range(len(shrunk.scenario.schedule)):
        rest = shrunk.scenario.schedule[:left_out] + shrunk.scenario.schedule[left_out + 1 :]
        other = run(msgspec.structs.replace(shrunk.scenario, schedule=rest)).violation
        assert other is None or other.oracle != oracle
