"""Many whole runs: every workload under every nemesis, or every planted defect, over seeds.

Each run is a `verify run` of its own, so that one that crashes or hangs spoils no other.

    python -m atleastonce.verifier.matrix --seeds 5
    python -m atleastonce.verifier.matrix --defects --seeds 3
"""

from __future__ import annotations

import argparse
import itertools
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Final, NoReturn

import click
import msgspec

from ..nemesis.registry import NEMESES
from ..system.bugs import BUGS
from ..workloads.registry import WORKLOADS
from .errors import Exit, UsageError, unknown_name
from .planning import fitting_nemeses

RESULTS: Final = "matrix.jsonl"
CRASHED: Final = "CRASHED"
RUN_S_MAX: Final = 900.0
"""A run that takes longer is given up, and counts as crashed."""

_VARIANTS: Final = {"log": ((), ("txn=true",))}
"""Settings with which a workload is run beside its defaults."""

_LOSSY: Final = ("kill-all", ("disk=lossy",))


class Cell(msgspec.Struct, frozen=True):
    """One run to make.

    Attributes:
        workload: Its workload.
        nemesis: Its nemesis; empty where the defect chooses.
        seed: Its seed.
        settings: `KEY=VALUE` pairs.
        bug: A planted defect, or empty.
        nodes: Nodes of the broker; 0 for the usual number.
        lane: A lane, which brings its own jobs, size, time and fault; or empty.
        profile: The lane's profile; or empty.
    """

    workload: str
    nemesis: str
    seed: int
    settings: tuple[str, ...] = ()
    bug: str = ""
    nodes: int = 0
    lane: str = ""
    profile: str = ""

    @property
    def name(self) -> str:
        """Say in a few words what it is."""
        return f"{self.workload} {self.case}" if self.workload else self.case

    @property
    def case(self) -> str:
        """Say what it is among those of its workload."""
        nodes = f"{self.nodes} nodes" if self.nodes else ""
        what = (self.lane, self.profile, self.nemesis, self.bug, *self.settings, nodes)
        return " ".join(part for part in (*what, f"seed {self.seed}") if part)

    def arguments(self, store: Path, time_limit_s: float, level: str = "") -> list[str]:
        """The command line of its run; without a level, `verify run` chooses it."""
        options = {
            "--nemesis": self.nemesis,
            "--bug": self.bug,
            "--level": level,
            "--nodes": str(self.nodes or ""),
        }
        output = ["--store", str(store), "--json", "--quiet"]
        if self.lane:
            named = ["--lane", self.lane, "--profile", self.profile]
            allowed = ["--level", level] if level else []
            return ["run", *named, *allowed, "--seed", str(self.seed), *output]
        chosen = [part for option, value in options.items() if value for part in (option, value)]
        pairs = [part for pair in self.settings for part in ("--set", pair)]
        size = ["--time-limit", f"{time_limit_s:g}", "--seed", str(self.seed)]
        named = [self.workload] if self.workload else []
        return ["run", *named, *chosen, *pairs, *size, *output]


class Result(msgspec.Struct, frozen=True):
    """How a run ended: one line of `matrix.jsonl`.

    Attributes:
        cell: What was run.
        status: Exit status of `verify run`; -1 for a run that was given up.
        broken: Rules with violations, by number.
        reasons: Why it is unknown, or the last line of a crash.
        run: Its folder.
        seconds: How long it took.
    """

    cell: Cell
    status: int
    broken: dict[str, int] = {}
    reasons: list[str] = []
    run: str = ""
    seconds: float = 0.0

    @property
    def word(self) -> str:
        """The verdict in a word."""
        words = {Exit.VALID: "valid", Exit.INVALID: "INVALID", Exit.UNKNOWN: "unknown"}
        return words.get(Exit(self.status), CRASHED) if self.status in _STATUSES else CRASHED

    @property
    def is_caught(self) -> bool:
        """Whether the rule that a planted defect names found it."""
        return BUGS[self.cell.bug].rule in self.broken if self.cell.bug else False

    def line(self) -> str:
        """Say it in one line."""
        found = ", ".join(f"{rule} {count}" for rule, count in self.broken.items())
        why = found or "; ".join(self.reasons[:2])
        return f"{self.word:<8} {self.cell.name}" + (f": {why}" if why else "")


_STATUSES: Final = frozenset(int(status) for status in Exit)


class _RuleReport(msgspec.Struct):
    violations: int = 0


class _Report(msgspec.Struct):
    rules: dict[str, _RuleReport] = {}
    reasons: list[str] = []
    run: str = ""


def all_cells(
    workloads: Sequence[str], nemeses: Sequence[str], seeds: Iterable[int]
) -> Iterator[Cell]:
    """Yield every workload under every nemesis that fits it, seed by seed.

    Raises:
        UsageError: A name is unknown.
    """
    for name, known in ((n, WORKLOADS) for n in workloads):
        if name not in known:
            raise unknown_name("workload", name, known)
    for name in nemeses:
        if name not in NEMESES:
            raise unknown_name("nemesis", name, NEMESES)
    for seed, nemesis, workload in itertools.product(seeds, nemeses, workloads):
        if nemesis not in fitting_nemeses(WORKLOADS[workload]):
            continue
        for settings in _VARIANTS.get(workload, ((),)):
            yield Cell(workload, nemesis, seed, settings)
            if nemesis == _LOSSY[0]:
                yield Cell(workload, nemesis, seed, (*settings, *_LOSSY[1]))


def defect_cells(names: Sequence[str], seeds: Iterable[int]) -> Iterator[Cell]:
    """Yield every planted defect that a whole run can bring out, seed by seed.

    Raises:
        UsageError: A name is unknown, or only the simulator brings it out.
    """
    real = {name: bug for name, bug in BUGS.items() if not bug.is_simulated}
    for name in names:
        if name not in real:
            raise unknown_name("bug", name, real)
    for seed, name in itertools.product(seeds, names or tuple(real)):
        yield Cell("", "", seed, (), name)


def run_cell(cell: Cell, store: Path, time_limit_s: float, level: str = "") -> Result:
    """Run one and read its report."""
    begun_s = time.monotonic()
    result = _run_cell(cell, cell.arguments(store, time_limit_s, level))
    return msgspec.structs.replace(result, seconds=round(time.monotonic() - begun_s, 1))


def _run_cell(cell: Cell, arguments: Sequence[str]) -> Result:
    command = [sys.executable, "-m", "atleastonce.verifier", *arguments]
    try:
        done = subprocess.run(command, capture_output=True, timeout=RUN_S_MAX, check=False)
    except subprocess.TimeoutExpired:
        return Result(cell, -1, reasons=[f"not ended after {RUN_S_MAX:g} s"])
    try:
        report = msgspec.json.decode(done.stdout, type=_Report)
    except msgspec.MsgspecError:
        lines = done.stderr.decode("utf-8", "replace").splitlines() or ["no report"]
        return Result(cell, done.returncode, reasons=lines[-1:])
    broken = {name: rule.violations for name, rule in report.rules.items() if rule.violations}
    return Result(cell, done.returncode, broken, report.reasons, report.run)


def read_results(store: Path) -> dict[Cell, Result]:
    """Return what a store holds of earlier runs, the last one of each; crashed ones count as none.

    A line that was cut short by the end of its writer is left out.
    """
    found: dict[Cell, Result] = {}
    path = store / RESULTS
    for line in path.read_bytes().splitlines() if path.exists() else ():
        with suppress(msgspec.MsgspecError):
            result = msgspec.json.decode(line, type=Result)
            if result.word != CRASHED:
                found[result.cell] = result
    return found


def run_all(
    cells: Sequence[Cell], store: Path, lanes: int, time_limit_s: float, level: str = ""
) -> Iterator[Result]:
    """Yield results as they come, from so many runs at a time; each is in `RESULTS` by then."""
    store.mkdir(parents=True, exist_ok=True)
    with (store / RESULTS).open("ab") as file, ThreadPoolExecutor(lanes) as pool:
        tasks = [
            # A store of its own for each lane: a verifier heals what it finds open in its store.
            pool.submit(run_cell, cell, store / f"run{number}", time_limit_s, level)
            for number, cell in enumerate(cells, 1)
        ]
        try:
            for task in tasks:
                result = task.result()
                file.write(msgspec.json.encode(result) + b"\n")
                file.flush()
                yield result
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def summary(results: Sequence[Result]) -> list[str]:
    """Count verdicts; of planted defects, how often each was caught, and by its own rule."""
    lines = [
        f"{sum(r.word == word for r in results)} {word}"
        for word in ("valid", "INVALID", "unknown", "CRASHED")
    ]
    told = [f"{len(results)} runs: {', '.join(lines)}"]
    names = dict.fromkeys(result.cell.bug for result in results if result.cell.bug)
    for name in names:
        runs = [result for result in results if result.cell.bug == name]
        caught = sum(result.status == Exit.INVALID for result in runs)
        named = sum(result.is_caught for result in runs)
        rules = ", ".join(dict.fromkeys(rule for result in runs for rule in result.broken))
        told.append(
            f"{name}: caught in {caught} of {len(runs)}, by {BUGS[name].rule} in {named} ({rules})"
        )
    return told


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        """Say what is wrong in one line."""
        click.echo(f"matrix: {message}", err=True)
        sys.exit(Exit.USAGE)


def _positive(text: str) -> int:
    number = int(text) if text.isdecimal() else 0
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 1 on")
    return number


def main(arguments: list[str] | None = None) -> int:
    """Run the matrix and return 0 if every run is valid, or every planted defect was caught."""
    parser = _Parser(prog="matrix", description=str(__doc__).partition("\n")[0])
    broker = [name for name, spec in WORKLOADS.items() if spec.jobs is None]
    parser.add_argument("--workloads", default=",".join(broker), help="names, with commas")
    parser.add_argument("--nemeses", default=",".join(NEMESES), help="names, with commas")
    parser.add_argument("--seeds", type=_positive, default=5, help="seeds each (default 5)")
    parser.add_argument("--first-seed", type=_positive, default=1, help="first seed (default 1)")
    parser.add_argument("--lanes", type=_positive, default=2, help="runs at a time (default 2)")
    parser.add_argument("--time-limit", type=_positive, default=40, help="seconds of load")
    parser.add_argument("--store", type=Path, default=Path("store/matrix"), help="folder")
    parser.add_argument("--defects", nargs="?", const="", help="planted defects instead: NAME,…")
    options = parser.parse_args(arguments)
    seeds = range(options.first_seed, options.first_seed + options.seeds)
    try:
        if options.defects is None:
            workloads, nemeses = options.workloads.split(","), options.nemeses.split(",")
            cells = list(all_cells(workloads, nemeses, seeds))
        else:
            cells = list(defect_cells([n for n in options.defects.split(",") if n], seeds))
    except UsageError as error:
        parser.error(str(error))
    results: list[Result] = []
    for result in run_all(cells, options.store, options.lanes, options.time_limit):
        results.append(result)
        click.echo(f"{len(results)}/{len(cells)} {result.line()}")
    for line in summary(results):
        click.echo(line)
    wanted = Exit.VALID if options.defects is None else Exit.INVALID
    return Exit.VALID if all(result.status == wanted for result in results) else Exit.INVALID


if __name__ == "__main__":
    sys.exit(main())
