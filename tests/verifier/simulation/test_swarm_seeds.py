"""Five hundred clusters of eight simulated seconds each: none violates anything.

Half of them change their membership, compact their logs, or both.
"""

from __future__ import annotations

import pytest

from atleastonce.verifier.simulation.counters import Counters
from atleastonce.verifier.simulation.simulation import random_scenario, run
from atleastonce.verifier.simulation.tokens import encode_token

CHUNKS = 10
SEEDS_PER_CHUNK = 50


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_no_seed_of_the_swarm_violates_an_oracle_and_together_they_reach_everything(
    chunk: int,
) -> None:
    total = Counters()
    for seed in range(chunk * SEEDS_PER_CHUNK, (chunk + 1) * SEEDS_PER_CHUNK):
        scenario = random_scenario(seed)
        assert scenario.knobs.length_us == 8_000_000
        outcome = run(scenario)
        assert outcome.violation is None, (
            f"seed {seed}: {outcome.violation}; "
            f"replay {encode_token(scenario, outcome.violation.oracle)}"
        )
        assert outcome.counters.committed > 0
        total.add(outcome.counters)
    # A run that exercised nothing proves nothing.
    assert total.elections > 2 * SEEDS_PER_CHUNK
    assert total.crashes > SEEDS_PER_CHUNK
    assert total.acked > 50 * SEEDS_PER_CHUNK
    assert total.reads > 10 * SEEDS_PER_CHUNK
    assert total.unknown > SEEDS_PER_CHUNK
    assert total.reads_failed > SEEDS_PER_CHUNK
    for name in ("snipes", "cuts", "pauses", "transfers", "truncations", "refusals"):
        assert getattr(total, name) > 5, name
    for name in ("snapshots", "installs", "changes", "changes_refused", "wipes"):
        assert getattr(total, name) > 10, name
    for name in ("lost", "doubled", "checkpoints", "compactions"):
        assert getattr(total, name) > 100, name


@pytest.mark.parametrize("seed", [1279])
def test_seeds_that_once_found_a_defect_are_clean(seed: int) -> None:
    # 1279: a leader of two terms took an answer to the first one for an answer to the second.
    assert run(random_scenario(seed)).violation is None
