"""What `verify lanes` does, once its arguments are read."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click
import msgspec

from .errors import Exit, UsageError
from .lanes import (
    all_cells,
    as_object,
    list_lines,
    run_cells,
    table_lines,
    worst_status,
)
from .scenario import check_nodes_and_seed
from .settings import parse_settings
from .store import check_store

_JOBS_MAX = 16


def run_lanes(
    lanes: Sequence[str],
    profiles: Sequence[str],
    jobs: int,
    settings: Sequence[str],
    seed: int | None,
    store: Path,
    *,
    as_json: bool,
    only_list: bool,
) -> Exit:
    """Run all lanes that were chosen, print what became of them, return the worst status.

    Raises:
        UsageError: A name, a number or the store cannot be had.
    """
    cells = all_cells(lanes, profiles)
    if not 1 <= jobs <= _JOBS_MAX:
        raise UsageError(f"--jobs {jobs} is not allowed; choose from 1 to {_JOBS_MAX}")
    check_nodes_and_seed(1, seed)
    parse_settings(settings)
    options = [part for pair in settings for part in ("--set", pair)]
    options += [] if seed is None else ["--seed", str(seed)]
    for line in list_lines(cells):
        click.echo(line, err=as_json)
    if only_list:
        return Exit.VALID
    check_store(store)
    results = []
    there = [cell for cell in cells if not cell.why_not]
    for result in run_cells(there, store, jobs, options):
        results.append(result)
        line = "  ".join(part for part in result.row() if part)
        click.echo(f"{len(results)}/{len(there)} {line} ({result.run_s:.0f} s in all)", err=True)
    for line in table_lines(results):
        click.echo(line, err=as_json)
    if as_json:
        click.echo(msgspec.json.encode(as_object(cells, results)).decode())
    return worst_status(results)
