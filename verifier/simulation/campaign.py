"""Many seeds: `python -m atleastonce.verifier.simulation.campaign --seeds 20000`.

Exit status: 0 all clean, 1 a violation, 2 bad arguments.
"""

from __future__ import annotations

import argparse
import ctypes
import multiprocessing
import os
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, NoReturn

import click
import msgspec

from ...system.bugs import BUGS
from .counters import Counters
from .hunts import HUNTS, hunt_scenario
from .shrink import shrink
from .simulation import Scenario, random_scenario, run
from .tokens import PYTHON, decode_token, encode_token

VIOLATIONS_MAX: Final = 10
SHRUNK_MAX: Final = 3
_CHUNK: Final = 25
_PROGRESS_S: Final = 2.0
_PR_SET_PDEATHSIG: Final = 1


class Task(msgspec.Struct, frozen=True):
    """A few seeds for one process."""

    first_seed: int
    seeds: int
    bug: str


class Report(msgspec.Struct):
    """What came of a task, or of all so far."""

    seeds: int = 0
    events: int = 0
    simulated_us: int = 0
    cpu_s: float = 0.0
    counters: Counters = msgspec.field(default_factory=Counters)
    failed: list[int] = msgspec.field(default_factory=list)

    def add(self, other: Report) -> None:
        """Add another report to this one."""
        self.seeds += other.seeds
        self.events += other.events
        self.simulated_us += other.simulated_us
        self.cpu_s += other.cpu_s
        self.counters.add(other.counters)
        self.failed += other.failed


def scenario_of(seed: int, bug: str) -> Scenario:
    """Return the run of a seed: of the swarm, or of the hunt for a planted defect."""
    return hunt_scenario(bug, seed) if bug else random_scenario(seed)


def run_task(task: Task) -> Report:
    """Run a task's seeds one after the other."""
    report = Report()
    started_s = time.process_time()
    for seed in range(task.first_seed, task.first_seed + task.seeds):
        outcome = run(scenario_of(seed, task.bug))
        report.seeds += 1
        report.events += outcome.events
        report.simulated_us += outcome.simulated_us
        report.counters.add(outcome.counters)
        if outcome.violation is not None:
            report.failed.append(seed)
    report.cpu_s = time.process_time() - started_s
    return report


def _die_with_parent() -> None:
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)


@contextmanager
def _reports(tasks: list[Task], jobs: int) -> Iterator[Iterator[Report]]:
    """Yield the tasks' reports as they come, from `jobs` processes or from this one."""
    if jobs == 1:
        yield map(run_task, tasks)
        return
    context = multiprocessing.get_context("spawn")
    with context.Pool(jobs, initializer=_die_with_parent) as pool:
        yield pool.imap_unordered(run_task, tasks)


def run_campaign(first_seed: int, seeds: int, jobs: int, bug: str) -> Report:
    """Run seeds, telling progress on standard error; ends early after `VIOLATIONS_MAX`."""
    end = first_seed + seeds
    tasks = [Task(first, min(_CHUNK, end - first), bug) for first in range(first_seed, end, _CHUNK)]
    total = Report()
    started_s = told_s = time.monotonic()
    with _reports(tasks, jobs) as reports:
        for report in reports:
            total.add(report)
            now_s = time.monotonic()
            if now_s - told_s >= _PROGRESS_S:
                told_s = now_s
                rate = total.seeds / (now_s - started_s)
                click.echo(
                    f"{total.seeds} of {seeds} seeds, {len(total.failed)} violations, "
                    f"{total.counters.elections} elections, {total.counters.crashes} crashes, "
                    f"{rate:.0f} seeds/s",
                    err=True,
                )
            if len(total.failed) >= VIOLATIONS_MAX:
                break
    return total


def _summarize(total: Report, bug: str) -> None:
    simulated_s = total.simulated_us / 1e6
    cpu_s = max(total.cpu_s, 1e-9)
    click.echo(
        f"{total.seeds} seeds, {simulated_s:.0f} simulated s, {cpu_s:.0f} CPU s "
        f"({simulated_s / cpu_s:.0f} simulated s and {total.events / cpu_s:.0f} events per CPU s)"
    )
    counts = msgspec.structs.asdict(total.counters)
    click.echo(", ".join(f"{name} {count}" for name, count in counts.items()))
    if not total.failed:
        click.echo("no violation")
        return
    early = " (stopped early)" if len(total.failed) >= VIOLATIONS_MAX else ""
    click.echo(f"{len(total.failed)} violations{early}, seeds {sorted(total.failed)}")
    for seed in sorted(total.failed)[:SHRUNK_MAX]:
        _explain(scenario_of(seed, bug))


def _explain(scenario: Scenario) -> None:
    """Print a violation, its smallest schedule and its token."""
    violation = run(scenario).violation
    assert violation is not None, f"seed {scenario.seed} failed once and is clean now"
    shrunk = shrink(scenario, violation.oracle)
    least = run(shrunk.scenario).violation or violation
    click.echo(f"\nseed {scenario.seed}: {least.oracle}: {least.detail}")
    click.echo(
        f"  at {least.at_us / 1e6:.6f} s; {len(scenario.schedule)} faults shrunk to "
        f"{len(shrunk.scenario.schedule)} in {shrunk.runs} runs:"
    )
    for fault in shrunk.scenario.schedule:
        click.echo(f"  {fault!r}")
    click.echo(f"  replay: --replay {encode_token(shrunk.scenario, least.oracle)}")


def replay(text: str) -> int:
    """Run a token again; returns the exit status.

    Raises:
        ValueError: See `decode_token`.
    """
    token = decode_token(text)
    if token.python != PYTHON:
        click.echo(f"token made by Python {token.python}, this is {PYTHON}", err=True)
    violation = run(token.scenario).violation
    if violation is None:
        click.echo(f"clean; the token says {token.oracle or 'clean'}")
        return 0
    click.echo(f"{violation.oracle}: {violation.detail} at {violation.at_us / 1e6:.6f} s")
    return 1


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        """Say what is wrong in one line."""
        click.echo(f"campaign: {message}", err=True)
        sys.exit(2)


def _positive(text: str) -> int:
    number = int(text) if text.isdecimal() else 0
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 1 on")
    return number


def _seed(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 0 on")
    return int(text)


def main(arguments: list[str] | None = None) -> int:
    """Run a campaign or replay a token; returns the exit status."""
    parser = _Parser(prog="campaign", description="Simulate the Raft core under faults.")
    parser.add_argument("--seeds", type=_positive, default=1000, help="runs (default 1000)")
    parser.add_argument("--first-seed", type=_seed, default=0, help="first seed (default 0)")
    parser.add_argument("--jobs", type=_positive, default=os.cpu_count() or 1, help="processes")
    parser.add_argument("--bug", default="", help="planted defect to hunt for")
    parser.add_argument("--replay", metavar="TOKEN", help="run one token instead")
    options = parser.parse_args(arguments)
    if options.bug and options.bug not in HUNTS:
        known = "unknown bug" if options.bug not in BUGS else "not a bug of the Raft core:"
        parser.error(f"{known} {options.bug!r}; choose from: {', '.join(sorted(HUNTS))}")
    if options.replay:
        try:
            return replay(options.replay)
        except ValueError as error:
            parser.error(str(error))
    try:
        total = run_campaign(options.first_seed, options.seeds, options.jobs, options.bug)
        _summarize(total, options.bug)
    except KeyboardInterrupt:
        click.echo("campaign: interrupted", err=True)
        return 130
    return 1 if total.failed else 0


if __name__ == "__main__":
    sys.exit(main())
