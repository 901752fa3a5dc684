"""Run the suite of Queen's Python client, each mode on fresh nodes, and print what came of it.

Exit status: 0 when every mode that kills nobody passed whole, else 1.
"""

from __future__ import annotations

import secrets
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

import click

from tests.system.node.node_cluster import Cluster

from .killer import LeaderKiller
from .report import Outcome, read_outcome
from .suite import Suite, fetch_suite, streams_suite

MODES = ("single", "tokens", "cluster", "kill-leader")
STREAMS = "streams"


def run_mode(mode: str, suite: Suite, folder: Path, arguments: tuple[str, ...]) -> Outcome:
    """Run the suite once, on nodes that nobody has used."""
    folder.mkdir(parents=True)
    settings: dict[str, object] = {}
    extra: dict[str, str] = {}
    if mode == "tokens":
        extra["JWT_SECRET"] = secrets.token_hex(32)
        secret = folder / "jwt-secret"
        secret.touch(0o600)
        secret.write_text(extra["JWT_SECRET"])
        settings["jwt_secret_file"] = str(secret)
        arguments = ("test_auth.py", *arguments)
    if mode == STREAMS:
        settings["default_subscription_mode"] = "all"
    cluster = Cluster(folder, 3 if mode in ("cluster", "kill-leader") else 1, **settings)
    report = folder / "report.xml"
    kills = 0
    with ExitStack() as stack:
        stack.callback(cluster.end)
        cluster.start()
        urls = [f"http://127.0.0.1:{node.port}" for node in cluster.nodes.values()]
        killer = stack.enter_context(LeaderKiller(cluster)) if mode == "kill-leader" else None
        suite.run(urls, report, extra, *arguments)
        kills = killer.kills if killer is not None else 0
    outcome = read_outcome(mode, report)
    outcome.kills = kills
    return outcome


@click.command()
@click.option("--mode", "modes", type=click.Choice(MODES), multiple=True, help="All by default.")
@click.option("--keep", type=click.Path(path_type=Path), help="Leave logs and reports here.")
@click.option(
    "--streams",
    "checkout",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    help="A copy of Queen's repository: run its streams tests too (alone without --mode).",
)
@click.argument("arguments", nargs=-1)
def main(
    modes: tuple[str, ...], keep: Path | None, checkout: Path | None, arguments: tuple[str, ...]
) -> None:
    """Run the client's suite; further arguments go to pytest."""
    with ExitStack() as stack:
        fetched = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="suite-")))
        suite = fetch_suite(fetched)
        folder = keep or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="nodes-")))
        suites = dict.fromkeys(modes or (() if checkout else MODES), suite)
        if checkout is not None:
            suites[STREAMS] = streams_suite(suite, checkout, fetched)
        outcomes = []
        for mode, tests in suites.items():
            outcome = run_mode(mode, tests, folder / mode, arguments)
            click.echo("\n".join(outcome.lines()) + "\n")
            outcomes.append(outcome)
    is_whole = all(
        outcome.passed and not outcome.failures
        for outcome in outcomes
        if outcome.mode != "kill-leader"
    )
    sys.exit(0 if is_whole else 1)


if __name__ == "__main__":
    main()
