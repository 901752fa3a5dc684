"""`make fuzz`: every target for a while, one after the other; status 1 if one finds something."""

from __future__ import annotations

import importlib.util
import random
import subprocess
import sys
import tempfile
import traceback
from pathlib import Path

import click

from .guarded import DOORS, explored_node
from .targets import TARGETS

PATIENCE_S = 120.0
"""How much longer than asked for a target may take, to start and to end."""


def fuzz_decoder(name: str, corpus: Path, seconds: int) -> bool:
    """Whether a target withstood atheris; says what it said otherwise."""
    command = [sys.executable, "-m", "tests.fuzz.harness", name, str(corpus), str(seconds)]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=seconds + PATIENCE_S, check=False
    )
    units = [line for line in done.stderr.splitlines() if "executed_units" in line]
    if done.returncode == 0:
        click.echo(f"{name}: {units[-1].split()[-1] if units else '?'} inputs, nothing found")
        return True
    click.echo(done.stdout + done.stderr)
    click.echo(f"{name}: found something; the input is in {corpus / 'findings'}; to see it again:")
    click.echo(f"  {sys.executable} -m tests.fuzz.harness {name} FILE")
    return False


def explore(door: str, seconds: int, seed: int) -> bool:
    """Whether a real node gave only answers that its document states."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            with explored_node(Path(folder), door) as (_, surface):
                surface.run(seconds, seed)
        except (AssertionError, BaseExceptionGroup, OSError):
            click.echo(traceback.format_exc())
            click.echo(f"surface, {door}: found something, with --seed {seed}")
            return False
    tally = surface.tally
    answers = ", ".join(f"{count} × {status}" for status, count in sorted(tally.statuses.items()))
    click.echo(f"surface, {door}: {tally.requests} requests, nothing found ({answers})")
    return True


@click.command()
@click.option("--seconds", default=60, show_default=True, help="For each target.")
@click.option("--seed", type=int, help="Of the requests; drawn and told when missing.")
@click.option("--corpus", type=click.Path(path_type=Path), help="Where inputs are kept.")
def main(seconds: int, seed: int | None, corpus: Path | None) -> None:
    """Fuzz the HTTP surface by its document, and decoders and the log reader by coverage."""
    if importlib.util.find_spec("atheris") is None:
        raise click.ClickException("atheris is not installed; `make fuzz` installs it")
    seed = random.randrange(1 << 32) if seed is None else seed
    place = corpus or Path(tempfile.mkdtemp(prefix="atleastonce-fuzz-"))
    results = [fuzz_decoder(name, place, seconds) for name in sorted(TARGETS)]
    results += [explore(door, seconds, seed) for door in DOORS]
    sys.exit(0 if all(results) else 1)


if __name__ == "__main__":
    main()
