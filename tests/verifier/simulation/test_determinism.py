"""The same scenario goes the same way, everywhere."""

from __future__ import annotations

import os
import subprocess
import sys

import msgspec
import pytest

from atleastonce.verifier.simulation.faults import Fault
from atleastonce.verifier.simulation.simulation import random_scenario, run
from atleastonce.verifier.simulation.streams import Stream

SEEDS = (1, 7, 23)

PRINT_DIGESTS = f"""
from atleastonce.verifier.simulation.simulation import random_scenario, run
for seed in {SEEDS}:
    print(run(random_scenario(seed)).digest)
"""


@pytest.mark.parametrize("seed", SEEDS)
def test_the_same_seed_gives_the_same_digest_twice(seed: int) -> None:
    first, second = run(random_scenario(seed)), run(random_scenario(seed))
    assert first == second
    assert first.events > 1000


def test_different_seeds_give_different_digests() -> None:
    assert len({run(random_scenario(seed)).digest for seed in SEEDS}) == len(SEEDS)


@pytest.mark.parametrize("hash_seed", ["0", "12345"])
def test_digests_do_not_depend_on_the_process_or_its_hash_seed(hash_seed: str) -> None:
    other = subprocess.run(
        [sys.executable, "-c", PRINT_DIGESTS],
        env={**os.environ, "PYTHONHASHSEED": hash_seed},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert other.stdout.split() == [run(random_scenario(seed)).digest for seed in SEEDS]


def test_each_entity_draws_from_a_stream_of_its_own() -> None:
    alone = Stream(5, "node:1")
    expected = [alone.between(0, 999) for _ in range(20)]
    again, other = Stream(5, "node:1"), Stream(5, "node:2")
    drawn = []
    for _ in range(20):
        other.between(0, 999)
        drawn.append(again.between(0, 999))
    assert drawn == expected
    assert [other.between(0, 999) for _ in range(20)] != expected


def test_a_fault_that_is_left_out_moves_nothing_before_its_time() -> None:
    scenario = random_scenario(7)
    late = Fault(7_900_000, "bounce", 0, 1_000)
    with_late = msgspec.structs.replace(scenario, schedule=(*scenario.schedule, late))
    with_later = msgspec.structs.replace(
        scenario, schedule=(*scenario.schedule, msgspec.structs.replace(late, at_us=9_000_000))
    )
    assert run(with_later).digest == run(scenario).digest
    assert run(with_late).digest != run(scenario).digest
