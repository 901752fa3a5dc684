"""`verify plan` and `verify matrix`: what breaks, told beforehand, and tried on everything."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import click

from .cli_options import JSON, split_names, split_targets


@click.command()
@click.argument("workload", default="")
@click.option("--nemesis", metavar="NAME[=TARGET][,...]", default=None, help="As of verify run.")
@click.option(
    "--plan",
    "plan_path",
    type=click.Path(path_type=Path),
    default=None,
    help="A file of faults and combinators to check and expand.",
)
@click.option("--swarm", is_flag=True, help="As of verify run.")
@click.option("--nodes", type=int, default=3, show_default=True, help="Nodes of the broker.")
@click.option("--time-limit", type=float, default=None, help="As of verify run.")
@click.option("--interval", type=float, default=5, show_default=True, help="As of verify run.")
@click.option("--seed", type=int, default=None, help="Of the plan; drawn if left out.")
@click.option("--set", "settings", metavar="KEY=VALUE", multiple=True, help="As of verify run.")
@click.option("--level", default="auto", show_default=True, help="As of verify run.")
def plan(
    workload: str,
    nemesis: str | None,
    plan_path: Path | None,
    swarm: bool,
    nodes: int,
    time_limit: float | None,
    interval: float,
    seed: int | None,
    settings: Sequence[str],
    level: str,
) -> None:
    """Print the plan of faults that verify run would carry out, as a file that --plan takes."""
    from .plan_command import plan_lines, plan_text
    from .planning import load_plan, time_limit_of
    from .scenario import Request, make_scenario

    nemeses, targets = split_targets(nemesis)
    file = None if plan_path is None else load_plan(plan_path)
    scenario = make_scenario(
        Request(
            workload=workload,
            nemeses=nemeses,
            targets=targets,
            nodes=nodes,
            workers=1,
            time_limit_s=time_limit_of(time_limit, file),
            rate=None,
            interval_s=interval,
            seed=seed,
            settings=tuple(settings),
            bugs=(),
            plan=file,
            plan_path=str(plan_path or ""),
            swarm=swarm,
            level=level,
        )
    )
    click.echo(plan_text(scenario), nl=False)
    if sys.stderr.isatty():
        for line in plan_lines(scenario):
            click.echo(line, err=True)


@click.command()
@click.option(
    "--workload",
    "workloads",
    metavar="NAME[,NAME...]",
    default=None,
    help="All, if left out; lanes stands for all failure lanes, each with its own fault.",
)
@click.option(
    "--nemesis",
    "nemeses",
    metavar="NAME[,NAME...]",
    default=None,
    help="Nemeses and packages, and lanes with such a fault; all that the level lets a workload "
    "have, if left out.",
)
@click.option("--seeds", type=int, default=1, show_default=True, help="Runs of each pair.")
@click.option("--first-seed", type=int, default=1, show_default=True, help="The first one's seed.")
@click.option("--jobs", type=int, default=1, show_default=True, help="Runs at a time.")
@click.option("--time-limit", type=float, default=60, show_default=True, help="As of verify run.")
@click.option("--level", default="auto", show_default=True, help="As of verify run.")
@click.option(
    "--store",
    type=click.Path(path_type=Path),
    default=Path("store/matrix"),
    show_default=True,
    help="Folder of the runs; what it holds of them already is not run again.",
)
@click.option(
    "--junit",
    type=click.Path(path_type=Path),
    default=None,
    help="Where the XML for a test server goes; junit.xml in the store, if left out.",
)
@click.option("--list", "only_list", is_flag=True, help="Name the runs and make none.")
@JSON
def matrix(
    workloads: str | None,
    nemeses: str | None,
    seeds: int,
    first_seed: int,
    jobs: int,
    time_limit: float,
    level: str,
    store: Path,
    junit: Path | None,
    only_list: bool,
    as_json: bool,
) -> int:
    """Run every workload under every nemesis, judge each, and print a table of verdicts.

    Exit status: 0 if all are valid, else 1. A matrix that was interrupted is continued.
    """
    from .matrix_command import Wanted, run_matrix

    wanted = Wanted(
        workloads=split_names(workloads),
        nemeses=split_names(nemeses),
        seeds=seeds,
        first_seed=first_seed,
        time_limit_s=time_limit,
        level=level,
    )
    return run_matrix(
        wanted, store, jobs, junit or store / "junit.xml", only_list=only_list, as_json=as_json
    )
