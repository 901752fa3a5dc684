"""What `verify run` and `verify check` do, once their arguments are read."""

from __future__ import annotations

import sys
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TypeVar

import click

from ..histories.host import this_host
from ..histories.scenario import write_scenario
from ..nemesis.levels import AUTO
from ..nemesis.registry import NEMESES
from .config import node_config, supervisor_config
from .errors import Exit, HarnessError, VerifyError
from .heal import heal_store
from .judge import contract_of, judge, unknown
from .levels import choose, needs_of
from .live import Board, show_plain, show_rich
from .network import Network, lay_network
from .private_world import enter, inside
from .report import Outcome, as_json, headline, quiet_line, report_lines
from .runner import Ended, Show, Start, execute
from .scenario import Scenario
from .store import RunPaths, check_store, make_run_folder, open_run

E = TypeVar("E", bound=BaseException)


@dataclass(frozen=True, slots=True)
class Output:
    """What is printed where.

    Attributes:
        as_json: Standard output is one JSON object; everything else goes to standard error.
        quiet: The verdict alone.
    """

    as_json: bool
    quiet: bool

    def note(self, text: str) -> None:
        """Say something on standard error, unless it is to be quiet or nobody reads it."""
        if not self.quiet:
            with suppress(BrokenPipeError):
                click.echo(text, err=True)

    def show(self) -> Show:
        """Choose how the run is shown."""
        if self.quiet:
            return _show_nothing
        return show_rich if sys.stderr.isatty() else partial(show_plain, write=self.note)

    def finish(self, outcome: Outcome) -> Exit:
        """Print the end of a run and return the exit status."""
        line, colour = headline(outcome)
        if self.quiet and not self.as_json:
            click.echo(quiet_line(outcome))
        elif not self.quiet:
            click.secho(line, fg=colour, bold=True, err=self.as_json)
            for text in report_lines(outcome):
                click.echo(text, err=self.as_json)
        if self.as_json:
            click.echo(as_json(outcome))
        return outcome.status


async def _show_nothing(_: Callable[[], Board]) -> None:
    """Be quiet."""


def run_and_judge(scenario: Scenario, store: Path, output: Output, level: str = AUTO) -> Exit:
    """Run a scenario, judge it, print the report; return the exit status.

    Above level 0 the command begins anew in a private world, where it gets here again.

    Args:
        scenario: What to run.
        store: Where runs lie.
        output: Where the report goes.
        level: One of `nemesis.levels.CHOICES`.

    Raises:
        LevelError: A fault needs what the level does not have.
        UsageError: The store or a port cannot be had, or the settings do not fit together.
        HarnessError: The harness failed; the run folder says how.
    """
    world = inside()
    if world is None:
        kinds = {fault.kind for fault in scenario.plan} | set(scenario.nemeses) & set(NEMESES)
        chosen = choose(level, needs_of(sorted(kinds)))
        check_store(store)
        # Inside a private world the processes of other runs cannot be seen.
        for line in heal_store(store):
            output.note(line)
        if chosen.level.number > 0:
            enter(chosen, scenario.seed, sys.argv[1:])
    else:
        chosen = world.chosen
    scenario = replace(scenario, level=chosen.level.number)
    with lay_network(scenario, chosen) as network:
        _check_configs(scenario, network)
        run = make_run_folder(store, scenario.workload, scenario.nemesis)
        origin_ns = time.monotonic_ns()
        stored = scenario.stored(origin_ns, this_host(), contract_of(scenario))
        write_scenario(run.scenario, stored)
        for text in scenario.notes:
            output.note(text)
        output.note(f"run {run.path}, seed {scenario.seed}")
        start = Start(scenario, run, origin_ns, network, None if world is None else world.target)
        return output.finish(_run_guarded(start, output))


def _check_configs(scenario: Scenario, network: Network) -> None:
    """Refuse settings that no process would take, before a folder is made for them."""
    nowhere = RunPaths("/nonexistent")
    for node in scenario.node_names:
        node_config(scenario, nowhere, node, network)
    if scenario.is_supervised:
        supervisor_config(scenario, nowhere, network)


def _run_guarded(start: Start, output: Output) -> Outcome:
    """Run and judge; turn an interruption into `unknown`, and a crash into one line and a file.

    Raises:
        VerifyError: The harness failed.
    """
    run = start.run
    try:
        ended = execute(start, output.show())
        if ended.interrupted:
            return unknown(run, [f"interrupted during {ended.interrupted}"])
        begun_s = time.monotonic()
        outcome = judge(run)
        ended.phases_s["judge"] = round(time.monotonic() - begun_s, 3)
        output.note(_phases_line(ended))
    except (Exception, BaseExceptionGroup, KeyboardInterrupt) as error:
        if _find(error, KeyboardInterrupt):
            return unknown(run, [f"interrupted; verify check {run.path} judges what is there"])
        run.harness_error.write_text("".join(traceback.format_exception(error)), encoding="utf-8")
        known = _find(error, VerifyError)
        told = str(known) if known else f"{type(error).__name__}: {error}"
        unknown(run, [f"the harness failed: {told.splitlines()[0]}"])
        if known is not None:
            raise known from None
        raise HarnessError(
            f"the harness failed: {told.splitlines()[0]}; see {run.harness_error}"
        ) from error
    return outcome


def _find(error: BaseException, kind: type[E]) -> E | None:
    """Find the first error of a kind, also in what nurseries wrapped up."""
    if isinstance(error, kind):
        return error
    if isinstance(error, BaseExceptionGroup):
        found = (_find(inner, kind) for inner in error.exceptions)
        return next((inner for inner in found if inner is not None), None)
    return None


def _phases_line(ended: Ended) -> str:
    total_s = sum(ended.phases_s.values())
    parts = ", ".join(f"{name} {seconds:.1f}" for name, seconds in ended.phases_s.items())
    return f"took {total_s:.1f} s: {parts}"


def check_again(folder: Path, output: Output) -> Exit:
    """Judge a stored run again, print the report; return the exit status.

    Raises:
        UsageError: It is no run folder.
        HarnessError: Its scenario cannot be read.
    """
    return output.finish(judge(open_run(folder)))
