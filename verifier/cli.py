"""The command `verify`: arguments in, exit status out; what it does lies elsewhere.

Everything heavy is imported inside the command that needs it, so that `verify --version` and
`verify list` answer at once.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from .cli_options import DEFAULT_STORE, JSON, QUIET, STORE, split_targets
from .errors import Exit, UsageError, VerifyError
from .fault_commands import matrix, plan
from .packets_cli import packets


class OneLineGroup(click.Group):
    """A group whose errors are one line on standard error."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command, or name what there is."""
        if args and self.get_command(ctx, args[0]) is None and not args[0].startswith("-"):
            choices = ", ".join(self.list_commands(ctx))
            raise click.UsageError(f"unknown command {args[0]!r}; choose from: {choices}", ctx)
        return super().resolve_command(ctx, args)

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        **extra: Any,
    ) -> Any:
        """Run and exit; with `standalone_mode` off, return instead, as click does."""
        if not standalone_mode:
            return super().main(args, prog_name, complete_var, False, **extra)
        try:
            status = super().main(args, prog_name, complete_var, False, **extra)
        except click.ClickException as error:
            _complain(error.format_message())
            sys.exit(Exit.USAGE)
        except VerifyError as error:
            _complain(str(error))
            sys.exit(error.status)
        except (click.Abort, KeyboardInterrupt):
            _complain("interrupted")
            sys.exit(Exit.UNKNOWN)
        except BrokenPipeError:
            # Whoever read our output has gone; the interpreter must not stumble over the rest.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            sys.exit(Exit.HARNESS)
        sys.exit(status if isinstance(status, int) else Exit.VALID)


def _complain(text: str) -> None:
    click.echo(f"verify: {text}", err=True)


@click.group(cls=OneLineGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="atleastonce", message="verify (atleastonce) %(version)s")
def main() -> None:
    """Verify that a job system accounts for every attempt, while things break."""


@main.command()
@click.argument("workload", default="")
@click.option(
    "--nemesis",
    metavar="NAME[=TARGET][,...]",
    default=None,
    help="What breaks, and whom it hits (leader, n1+n3, ...); without it nothing does.",
)
@click.option("--lane", metavar="NAME", default="", help="A failure lane; see verify lanes --list.")
@click.option("--profile", metavar="NAME", default="", help="plain or fast; with --lane.")
@click.option("--nodes", type=int, default=None, help="Nodes of the broker; 3, or the lane's own.")
@click.option("--workers", type=int, default=4, show_default=True, help="Worker processes.")
@click.option(
    "--plan",
    "plan_path",
    type=click.Path(path_type=Path),
    default=None,
    help="A file of faults, as verify plan prints it, in place of --nemesis.",
)
@click.option(
    "--swarm", is_flag=True, help="The seed draws which nemeses there are, and how often."
)
@click.option(
    "--time-limit",
    type=float,
    default=None,
    help="Seconds of load and of faults; the plan's own, or 40.",
)
@click.option(
    "--rate", type=float, default=None, help="Operations a second; the workload has a default."
)
@click.option(
    "--interval", type=float, default=5, show_default=True, help="Mean seconds between faults."
)
@click.option("--seed", type=int, default=None, help="Of workload and plan; drawn if left out.")
@click.option(
    "--set", "settings", metavar="KEY=VALUE", multiple=True, help="A setting; see verify list."
)
@click.option("--bug", "bugs", metavar="NAME", multiple=True, help="A planted defect to switch on.")
@click.option(
    "--level",
    metavar="auto|0|1|2",
    default="auto",
    show_default=True,
    help="What of the machine faults may use: 0 nothing special, 1 a private network, 2 root.",
)
@click.option("--capture", is_flag=True, help="Record what goes over the links; verify packets.")
@STORE
@JSON
@QUIET
def run(
    workload: str,
    nemesis: str | None,
    plan_path: Path | None,
    swarm: bool,
    lane: str,
    profile: str,
    nodes: int | None,
    workers: int,
    time_limit: float | None,
    rate: float | None,
    interval: float,
    seed: int | None,
    settings: Sequence[str],
    bugs: Sequence[str],
    level: str,
    capture: bool,
    store: Path,
    as_json: bool,
    quiet: bool,
) -> int:
    """Run WORKLOAD (jobs, if left out) under the nemeses and judge it.

    Exit status: 0 valid, 1 invalid, 2 usage, 3 unknown (also: a fault needs more than the level
    has), 4 the harness failed.
    """
    from .commands import Output, run_and_judge
    from .lane_scenario import make_any_scenario
    from .levels import LevelError, check_level
    from .planning import load_plan, time_limit_of
    from .request import Request

    check_level(level)
    nemeses, targets = split_targets(nemesis)
    plan = None if plan_path is None else load_plan(plan_path)
    scenario = make_any_scenario(
        Request(
            workload=workload,
            nemeses=nemeses,
            targets=targets,
            nodes=3 if nodes is None else nodes,
            workers=workers,
            time_limit_s=time_limit_of(time_limit, plan),
            rate=rate,
            interval_s=interval,
            seed=seed,
            settings=tuple(settings),
            bugs=tuple(bugs),
            lane=lane,
            profile=profile,
            lane_nodes=nodes,
            plan=plan,
            plan_path=str(plan_path or ""),
            swarm=swarm,
            level=level,
            capture=capture,
        )
    )
    try:
        return run_and_judge(scenario, store, Output(as_json, quiet), level)
    except LevelError as error:
        if plan_path is None:
            raise
        raise LevelError(f"--plan {plan_path}: {error}") from None


@main.command()
@click.option("--lane", "names", metavar="NAME", multiple=True, help="This lane; all if left out.")
@click.option(
    "--profile", "profiles", metavar="NAME", multiple=True, help="plain or fast; or both."
)
@click.option("--jobs", type=int, default=1, show_default=True, help="Runs at a time.")
@click.option("--seed", type=int, default=None, help="Of every lane; drawn for each if left out.")
@click.option("--set", "settings", metavar="KEY=VALUE", multiple=True, help="As of verify run.")
@click.option("--list", "only_list", is_flag=True, help="Name the lanes and run none.")
@STORE
@JSON
def lanes(
    names: Sequence[str],
    profiles: Sequence[str],
    jobs: int,
    seed: int | None,
    settings: Sequence[str],
    only_list: bool,
    store: Path,
    as_json: bool,
) -> int:
    """Run all failure lanes in all profiles and print a table of results.

    Exit status: the worst of theirs.
    """
    from .lanes_command import run_lanes

    return run_lanes(
        names, profiles, jobs, settings, seed, store, as_json=as_json, only_list=only_list
    )


@main.command()
@click.option("--minutes", type=float, required=True, help="Minutes of load.")
@click.option("--rate", type=float, default=5, show_default=True, help="Dispatches a second.")
@click.option("--workers", type=int, default=8, show_default=True, help="Worker processes.")
@click.option("--nodes", type=int, default=3, show_default=True, help="Nodes of the broker.")
@click.option("--seed", type=int, default=None, help="Of the jobs; drawn if left out.")
@click.option("--set", "settings", metavar="KEY=VALUE", multiple=True, help="As of verify run.")
@STORE
@JSON
@QUIET
def soak(
    minutes: float,
    rate: float,
    workers: int,
    nodes: int,
    seed: int | None,
    settings: Sequence[str],
    store: Path,
    as_json: bool,
    quiet: bool,
) -> int:
    """Run jobs for long, with kills, a deploy and new code on schedule; judge jobs and memory.

    Exit status: as of verify run.
    """
    from .commands import Output, run_and_judge
    from .soak_scenario import SoakRequest, make_soak_scenario

    scenario = make_soak_scenario(
        SoakRequest(
            minutes=minutes,
            rate=rate,
            workers=workers,
            nodes=nodes,
            seed=seed,
            settings=tuple(settings),
        )
    )
    return run_and_judge(scenario, store, Output(as_json, quiet))


@main.command()
@click.argument("run_folder", metavar="RUN", type=click.Path(path_type=Path))
@JSON
@QUIET
def check(run_folder: Path, as_json: bool, quiet: bool) -> int:
    """Judge the stored run RUN again, without the system."""
    from .commands import Output, check_again

    return check_again(run_folder, Output(as_json, quiet))


@main.command(name="list")
@JSON
def list_(as_json: bool) -> None:
    """List workloads, nemeses, lanes, rules, bugs and settings."""
    from .catalogue import catalogue, catalogue_text, encode

    click.echo(encode(catalogue()) if as_json else catalogue_text(catalogue()))


@main.command()
@STORE
def heal(store: Path) -> None:
    """Undo what a killed verifier left open."""
    from .heal import heal_store

    if store.exists() and not store.is_dir():
        raise UsageError(f"--store {str(store)!r} is no folder; name the folder of the runs")
    if not store.exists() and store != DEFAULT_STORE:
        raise UsageError(f"there is no store folder {str(store)!r}; name one that holds runs")
    done = heal_store(store)
    for line in done:
        click.echo(line)
    if not done:
        click.echo(f"nothing to heal in {store}")


@main.command()
@STORE
@JSON
def doctor(store: Path, as_json: bool) -> int:
    """Say whether this machine can run the verifier, and which levels of faults it has.

    Exit status: 0 it can, 4 it cannot; a level that is not had is no failure.
    """
    from .doctor import examine
    from .doctor_report import report_json, report_lines
    from .levels import probe_machine

    probes = examine(store if store.is_dir() else Path())
    findings = probe_machine(extras=True)
    if as_json:
        click.echo(report_json(probes, findings))
    else:
        for line in report_lines(probes, findings):
            click.echo(line)
    return Exit.HARNESS if any(probe.state == "fail" for probe in probes) else Exit.VALID


main.add_command(plan)
main.add_command(matrix)
main.add_command(packets)
