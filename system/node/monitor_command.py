"""`atleastonce monitor`: queues that hold more than they should."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict

import click

from ..client import SyncClient
from ..jobs.loading import LoadError, load_application
from ..jobs.sizing import busy_queues
from .job_options import with_client
from .member_command import EXIT_OK, EXIT_UNWELL


@click.command()
@click.argument("queues", nargs=-1, required=True, metavar="QUEUE...")
@click.option(
    "--max",
    "size_max",
    type=click.IntRange(min=0),
    default=1000,
    show_default=True,
    help="Jobs that a queue may hold.",
)
@click.option("--group", default="jobs", show_default=True, help="Consumer group of its workers.")
@click.option("--app", "spec", help="MODULE:ATTRIBUTE, whose listeners of QueueBusy are called.")
@with_client
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def monitor(
    client: SyncClient,
    queues: Sequence[str],
    size_max: int,
    group: str,
    spec: str | None,
    as_json: bool,
) -> int:
    """Count the jobs of queues; status 1 when one holds more than --max."""
    try:
        app = None if spec is None else load_application(spec)
    except LoadError as error:
        raise click.UsageError(str(error)) from None
    sizes, busy = busy_queues(client, queues, group, size_max, app)
    names = {event.queue for event in busy}
    if as_json:
        rows = [asdict(size) | {"total": size.total, "busy": size.queue in names} for size in sizes]
        click.echo(json.dumps(rows))
    else:
        for size in sizes:
            state = "BUSY" if size.queue in names else "ok"
            click.echo(
                f"{size.queue}  {state}  {size.total} of {size_max}: {size.ready} ready, "
                f"{size.running} running, {size.delayed} delayed"
            )
    return EXIT_UNWELL if busy else EXIT_OK
