"""`atleastonce supervisor run` and `atleastonce supervisor options`."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

if TYPE_CHECKING:
    from .options.resolving import Resolved

EXIT_REFUSED: Final = 2
_F = TypeVar("_F", bound=Callable[..., Any])


def _with_sources(command: _F) -> _F:
    file = click.option(
        "--config",
        "file",
        type=click.Path(path_type=Path, dir_okay=False),
        help="TOML file with the tables master, driver and pools.NAME.",
    )
    flags = click.option(
        "--set",
        "flags",
        multiple=True,
        metavar="KEY=VALUE",
        help="One option, as in the file: pools.mail.max_processes=20. Wins over all else.",
    )
    return file(flags(command))


@click.command()
@_with_sources
def run(file: Path | None, flags: Sequence[str]) -> int:
    """Run a supervisor until SIGTERM. Status 2: options or state directory refused.

    Options come from the file, then from the environment (ATLEASTONCE_MASTER_…,
    ATLEASTONCE_DRIVER_…, ATLEASTONCE_POOL_NAME_…), then from --set; the later one wins.
    """
    # Late: the other commands need none of a master.
    from .options.building import build_config
    from .process import run_supervisor

    resolved = _resolve(file, flags)
    if _complain(resolved):
        return EXIT_REFUSED
    return run_supervisor(build_config(resolved.options))


@click.command()
@_with_sources
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def options(file: Path | None, flags: Sequence[str], as_json: bool) -> int:
    """Show every option, its value and where it came from; status 2 when some are refused."""
    resolved = _resolve(file, flags)
    if as_json:
        told = {row.key.path: {"value": row.value, "origin": row.origin} for row in resolved.rows}
        click.echo(
            json.dumps(
                {
                    "options": told,
                    "problems": list(resolved.problems),
                    "warnings": list(resolved.warnings),
                }
            )
        )
        return EXIT_REFUSED if resolved.problems else 0
    for row in resolved.rows:
        origin = "" if row.origin == "default" else f"  ({row.origin})"
        click.echo(f"{row.key.path} = {_shown(row.value)}{origin}")
    return EXIT_REFUSED if _complain(resolved) else 0


def _resolve(file: Path | None, flags: Sequence[str]) -> Resolved:
    from .options.resolving import resolve

    return resolve(file, os.environ, flags)


def _complain(resolved: Resolved) -> bool:
    """Say what is refused or doubtful, one line each; return whether anything is refused."""
    for warning in resolved.warnings:
        click.echo(f"supervisor: warning: {warning}", err=True)
    for problem in resolved.problems:
        click.echo(f"supervisor: {problem}", err=True)
    return bool(resolved.problems)


def _shown(value: object) -> str:
    if value is None:
        return "none"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        return ",".join(_shown(one) for one in value)
    return f"{value:g}" if isinstance(value, float) else str(value)
