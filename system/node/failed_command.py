"""`atleastonce failed`: the jobs that were given up, listed, queued again, forgotten."""

from __future__ import annotations

import functools
import json
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import click

from ..client import SyncClient
from ..jobs.failed import FailedJob, FailedStore
from ..jobs.payload import NotAJobError
from ..jobs.requeue import (
    UnknownFailedJobError,
    flush_failed,
    forget_failed,
    prune_failed,
    retry_failed,
)
from .job_options import with_client
from .member_command import EXIT_OK

VARIABLE: Final = "ATLEASTONCE_FAILED_STORE"

_JSON: Final = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


def _with_store(command: Callable[..., int]) -> Callable[..., int]:
    @functools.wraps(command)
    def run(*, store_path: Path, **options: object) -> int:
        with _opened(store_path) as store:
            return command(store, **options)

    return click.option(
        "--store",
        "store_path",
        type=click.Path(path_type=Path, exists=True, dir_okay=False),
        required=True,
        envvar=VARIABLE,
        help=f"The SQLite file of failed jobs; also from {VARIABLE}.",
    )(run)


@contextmanager
def _opened(path: Path) -> Iterator[FailedStore]:
    store = FailedStore(path)
    try:
        yield store
    except sqlite3.Error as error:
        raise click.UsageError(f"cannot use {path} as a store of failed jobs: {error}") from None
    except UnknownFailedJobError as error:
        raise click.UsageError(str(error)) from None
    finally:
        store.close()


@click.group()
def failed() -> None:
    """List jobs that were given up, queue them again, forget them."""


@failed.command("list")
@_with_store
@_JSON
def list_jobs(store: FailedStore, as_json: bool) -> int:
    """Print the failed jobs, oldest first; payloads are not shown."""
    rows = store.list()
    if as_json:
        click.echo(json.dumps([_facts(row) for row in rows]))
        return EXIT_OK
    for row in rows:
        at = datetime.fromtimestamp(row.failed_at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        error = " ".join(row.error.split())
        click.echo(f"{row.id}  {at}  {row.queue}  {row.job or '-'}  {row.cause}  {error[:80]}")
    return EXIT_OK


@failed.command()
@click.argument("job_ids", nargs=-1, metavar="[ID]...")
@click.option("--all", "is_all", is_flag=True, help="All of them.")
@_with_store
@with_client
@_JSON
def retry(
    client: SyncClient, store: FailedStore, job_ids: Sequence[str], is_all: bool, as_json: bool
) -> int:
    """Queue jobs again, with all their tries."""
    if is_all is bool(job_ids):
        raise click.UsageError("name the ids of failed jobs, or give --all")
    done: list[str] = []
    for job_id in _known(store, job_ids) if job_ids else [row.id for row in store.list()]:
        try:
            retry_failed(store, client, job_id)
        except NotAJobError as error:
            raise click.UsageError(f"{job_id}: {error}; it can only be forgotten") from None
        done.append(job_id)
    return _tell(as_json, "retried", done)


@failed.command()
@click.argument("job_ids", nargs=-1, required=True, metavar="ID...")
@_with_store
@with_client
@_JSON
def forget(client: SyncClient, store: FailedStore, job_ids: Sequence[str], as_json: bool) -> int:
    """Delete jobs, with their dead letters."""
    for job_id in _known(store, job_ids):
        forget_failed(store, client, job_id)
    return _tell(as_json, "forgotten", list(job_ids))


@failed.command()
@click.option(
    "--hours", type=click.FloatRange(min=0), help="Only jobs that failed this long ago or longer."
)
@_with_store
@with_client
@_JSON
def flush(client: SyncClient, store: FailedStore, hours: float | None, as_json: bool) -> int:
    """Delete all failed jobs, with their dead letters."""
    if hours is None:
        return _count(as_json, flush_failed(store, client))
    return _count(as_json, prune_failed(store, client, hours))


@failed.command()
@click.option(
    "--hours",
    type=click.FloatRange(min=0),
    default=24.0,
    show_default=True,
    help="Jobs that failed this long ago or longer.",
)
@_with_store
@with_client
@_JSON
def prune(client: SyncClient, store: FailedStore, hours: float, as_json: bool) -> int:
    """Delete old failed jobs, with their dead letters."""
    return _count(as_json, prune_failed(store, client, hours))


def _known(store: FailedStore, job_ids: Sequence[str]) -> Sequence[str]:
    """These ids, once all of them are known to be there: a slip must not do half of the work."""
    for job_id in job_ids:
        if store.get(job_id) is None:
            raise UnknownFailedJobError(f"no failed job {job_id!r} in {store.path}")
    return job_ids


def _facts(row: FailedJob) -> dict[str, object]:
    return {name: value for name, value in asdict(row).items() if name != "payload"}


def _tell(as_json: bool, word: str, job_ids: list[str]) -> int:
    if as_json:
        click.echo(json.dumps({word: job_ids}))
    else:
        for job_id in job_ids:
            click.echo(f"{word} {job_id}")
    return EXIT_OK


def _count(as_json: bool, count: int) -> int:
    click.echo(json.dumps({"forgotten": count}) if as_json else f"forgotten: {count}")
    return EXIT_OK
