"""How fast the simulator runs clusters, and what one committed entry costs the pure Raft core.

Run: python -m benchmarks.raft_simulation [SEEDS]
"""

from __future__ import annotations

import sys
import time

from atleastonce.verifier.simulation.counters import Counters
from atleastonce.verifier.simulation.knobs import Knobs
from atleastonce.verifier.simulation.scripted import THREE, ScriptedCluster, ScriptedServer
from atleastonce.verifier.simulation.simulation import Scenario, random_scenario, run

SEEDS = 200
PROPOSALS = 5_000


def measure(label: str, scenarios: list[Scenario]) -> None:
    """Run scenarios one after the other and print their speed."""
    total, events, simulated_us = Counters(), 0, 0
    started_s = time.process_time()
    for scenario in scenarios:
        outcome = run(scenario)
        assert outcome.violation is None, outcome.violation
        total.add(outcome.counters)
        events += outcome.events
        simulated_us += outcome.simulated_us
    cpu_s = time.process_time() - started_s
    print(
        f"  {label:24} {simulated_us / 1e6 / cpu_s:7.0f} simulated s/CPU s, "
        f"{events / cpu_s / 1000:4.0f} k events/CPU s, {total.elections} elections, "
        f"{total.crashes} crashes, {total.acked} writes acknowledged"
    )


def measure_core() -> None:
    """Commit entries one by one on three cores without any delay; print the cost of one."""
    cluster = ScriptedCluster(*(ScriptedServer(name) for name in THREE))
    leader = cluster.elect("n1")
    started_s = time.process_time()
    for _ in range(PROPOSALS):
        leader.propose(b"x" * 200)
        cluster.deliver()
    cpu_s = time.process_time() - started_s
    assert leader.core.commit_index == PROPOSALS + 1
    print(
        f"  one entry, three cores   {cpu_s / PROPOSALS * 1e6:7.0f} µs CPU, all steps of all three"
    )


def main() -> None:
    """Print all figures."""
    seeds = int(sys.argv[1]) if len(sys.argv) > 1 else SEEDS
    print("raft simulation")
    idle = Knobs(clients=0, length_us=60_000_000)
    busy = Knobs(clients=4, think_us=5_000)
    measure("three nodes, idle", [Scenario(seed, idle, ()) for seed in range(10)])
    measure("three nodes, 4 clients", [Scenario(seed, busy, ()) for seed in range(10)])
    measure("swarm of faults", [random_scenario(seed) for seed in range(seeds)])
    measure_core()


if __name__ == "__main__":
    main()
