"""What `verify matrix` does: which runs there are, those that are left, and a table of verdicts."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import click
import msgspec

from ..nemesis.packages import PACKAGES
from ..nemesis.registry import NEMESES
from ..workloads.registry import LANE, SOAK, WORKLOADS
from .errors import Exit, UsageError, unknown_name
from .junit import write_junit
from .matrix import Cell, Result, read_results, run_all, summary
from .matrix_lanes import LANES_WORKLOAD, lane_cells, lane_table, words
from .planning import fits
from .powers import levels_of
from .request import Request
from .scenario import check_time_limit, make_scenario
from .store import check_store
from .tables import table

_NODES: Final = 3
_SEEDS_MAX: Final = 1000
_JOBS_MAX: Final = 64
_INTERVAL_S: Final = 5.0
"""As of `verify run`."""

CHOICES: Final = (*(name for name in WORKLOADS if name not in (LANE, SOAK)), LANES_WORKLOAD)
"""The workloads of a matrix."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What the command line asked for; empty names are all."""

    workloads: tuple[str, ...]
    nemeses: tuple[str, ...]
    seeds: int
    first_seed: int
    time_limit_s: float
    level: str


def matrix_cells(wanted: Wanted, levels: Sequence[frozenset[str]]) -> list[Cell]:
    """Return a run for every workload, every nemesis that fits it and a level, and every seed.

    Lanes bring their own faults; of them there are those that bring one of the nemeses.

    Args:
        wanted: What was asked for.
        levels: The powers of each level that a run may choose.

    Raises:
        UsageError: A name is unknown, or a number not allowed.
    """
    workloads = wanted.workloads or CHOICES
    for name in workloads:
        if name not in CHOICES:
            raise unknown_name("workload", name, CHOICES)
    nemeses = wanted.nemeses or tuple(NEMESES)
    for name in nemeses:
        if name not in NEMESES and name not in PACKAGES:
            raise unknown_name("nemesis", name, (*NEMESES, *PACKAGES))
    _check_range("--seeds", wanted.seeds, 1, _SEEDS_MAX)
    _check_range("--first-seed", wanted.first_seed, 0, 1 << 62)
    check_time_limit(wanted.time_limit_s)
    seeds = range(wanted.first_seed, wanted.first_seed + wanted.seeds)
    plain = [name for name in workloads if name != LANES_WORKLOAD]
    cells = [
        Cell(workload, nemesis, seed, nodes=nodes if nodes > _NODES else 0)
        for seed, nemesis, workload in itertools.product(seeds, nemeses, plain)
        for nodes in [_nodes_of(nemesis)]
        if any(
            fits(NEMESES[name], WORKLOADS[workload], nodes, powers)
            for name in PACKAGES.get(nemesis, (nemesis,))
            for powers in levels
        )
    ]
    _check_plans(cells, wanted)
    if LANES_WORKLOAD in workloads:
        cells += lane_cells(nemeses, seeds, levels)
    if not cells:
        raise UsageError(
            f"no nemesis of {','.join(nemeses)!r} fits a workload of {','.join(workloads)!r} "
            f"at level {wanted.level}"
        )
    return cells


def _check_plans(cells: Sequence[Cell], wanted: Wanted) -> None:
    """Refuse what `verify run` would refuse of each, such as a time too short for a fault."""
    for cell in cells:
        request = Request(
            workload=cell.workload,
            nemeses=(cell.nemesis,),
            nodes=cell.nodes or _NODES,
            workers=1,
            time_limit_s=wanted.time_limit_s,
            rate=None,
            interval_s=_INTERVAL_S,
            seed=cell.seed,
            settings=cell.settings,
            bugs=(),
            level=wanted.level,
        )
        try:
            make_scenario(request)
        except UsageError as error:
            raise UsageError(f"{cell.name}: {error}") from None


def _nodes_of(nemesis: str) -> int:
    """So many nodes as usual, or as a nemesis needs, and an odd number."""
    least = NEMESES[nemesis].nodes_min if nemesis in NEMESES else _NODES
    return max(_NODES, least + (least + 1) % 2)


def _check_range(option: str, value: int, least: int, most: int) -> None:
    if not least <= value <= most:
        raise UsageError(f"{option} {value} is not allowed; choose from {least} to {most}")


def run_matrix(
    wanted: Wanted, store: Path, jobs: int, junit: Path, *, only_list: bool, as_json: bool
) -> Exit:
    """Make the runs that the store does not hold yet; return 0 if all of them are valid, else 1.

    Raises:
        UsageError: A name is unknown, a number not allowed, or the store cannot be written.
    """
    _check_range("--jobs", jobs, 1, _JOBS_MAX)
    cells = matrix_cells(wanted, levels_of(wanted.level))
    if only_list:
        for cell in cells:
            click.echo(cell.name)
        return Exit.VALID
    check_store(store)
    known = read_results(store)
    results = [known[cell] for cell in cells if cell in known]
    left = [cell for cell in cells if cell not in known]
    if results:
        click.echo(f"{len(results)} of {len(cells)} runs are in {store} already", err=as_json)
    level = "" if wanted.level == "auto" else wanted.level
    for result in run_all(left, store, jobs, wanted.time_limit_s, level):
        results.append(result)
        click.echo(f"{len(results)}/{len(cells)} {result.line()}", err=as_json)
        # After each, so that one that is interrupted leaves a whole file.
        write_junit(results, junit)
    write_junit(results, junit)
    for line in (*verdict_tables(results), "", *summary(results), f"JUnit {junit}"):
        click.echo(line, err=as_json)
    if as_json:
        click.echo(msgspec.json.encode(results).decode())
    return Exit.VALID if all(r.status == Exit.VALID for r in results) else Exit.INVALID


def verdict_tables(results: Sequence[Result]) -> Iterator[str]:
    """Yield the table of workloads, and the one of lanes, as far as there are any."""
    lanes = [result for result in results if result.cell.lane]
    plain = [result for result in results if not result.cell.lane]
    for part, lines in ((plain, verdict_table), (lanes, lane_table)):
        if part:
            yield ""
            yield from lines(part)


def verdict_table(results: Sequence[Result]) -> Iterator[str]:
    """Yield a table: a line for each nemesis, a column for each workload."""
    workloads = list(dict.fromkeys(result.cell.workload for result in results))
    found: dict[tuple[str, str], list[str]] = {}
    for result in results:
        found.setdefault((result.cell.nemesis, result.cell.workload), []).append(result.word)
    rows = [
        (nemesis, *(words(found.get((nemesis, workload), ())) for workload in workloads))
        for nemesis in dict.fromkeys(result.cell.nemesis for result in results)
    ]
    yield from table(("nemesis", *workloads), rows, "<" * (1 + len(workloads)))
