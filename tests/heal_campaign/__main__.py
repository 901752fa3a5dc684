"""`make heal-campaign`: the verifier killed at many moments; status 1 if anything is ever left."""

from __future__ import annotations

import shutil
import statistics
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

import click

from .campaign import NEMESES, Moment, try_moment


def summary(moments: Sequence[Moment]) -> list[str]:
    """Count what was met and what was left."""
    hurt = [moment for moment in moments if moment.open_faults]
    busy = [moment for moment in moments if moment.before]
    unclean = [moment for moment in moments if moment.left]
    took = sorted(moment.heal_s for moment in moments)
    return [
        f"{len(moments)} moments: {len(hurt)} with open faults "
        f"({sum(len(moment.open_faults) for moment in hurt)} in all), "
        f"{len(busy)} with living processes, {len(unclean)} with something left",
        f"heal took {statistics.median(took):.2f} s at the median, {took[-1]:.2f} s at most",
    ]


@click.command()
@click.option("--moments", default=200, show_default=True, help="How many.")
@click.option("--first", default=1, show_default=True, help="Number of the first.")
@click.option("--seed", default=1, show_default=True, help="Of the moments and the runs.")
@click.option("--jobs", default=2, show_default=True, help="At a time.")
@click.option("--nemesis", "nemeses", default=NEMESES, show_default=True, help="What breaks.")
def main(moments: int, first: int, seed: int, jobs: int, nemeses: str) -> None:
    """Kill the verifier with SIGKILL at random moments, heal, and look for what is left."""
    done: list[Moment] = []
    with tempfile.TemporaryDirectory(prefix="heal-campaign-") as name:
        folder = Path(name).resolve()
        with ThreadPoolExecutor(jobs) as pool:
            tasks = [
                pool.submit(try_moment, number, seed, folder, nemeses)
                for number in range(first, first + moments)
            ]
            for task in as_completed(tasks):
                moment = task.result()
                done.append(moment)
                click.echo(moment.line())
                shutil.rmtree(folder / f"moment{moment.number}", ignore_errors=True)
    for line in summary(done):
        click.echo(line)
    sys.exit(1 if any(moment.left for moment in done) else 0)


if __name__ == "__main__":
    main()
