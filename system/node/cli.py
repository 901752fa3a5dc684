"""The command `atleastonce`: one node run, and nodes and data folders looked at.

Exit status of the looking commands: 0 all is well, 1 something is not, 2 it cannot be looked at,
70 the data is damaged. `broker run` ends with the node's own status.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import click

from ..storage.errors import DamagedCheckpointError, DamagedLogError, DirectoryLockedError
from .asking import BadUrlError, Told, Trust, ask_health
from .dumping import NoLogError, dump, open_folder, verify
from .member_command import DEFAULT_URL, EXIT_OK, EXIT_UNWELL, members, with_trust
from .saying import say

EXIT_USAGE: Final = 2
EXIT_DAMAGED: Final = 70

_URLS: Final = click.argument("urls", nargs=-1, metavar="[URL]...")
_TIMEOUT: Final = click.option(
    "--timeout",
    "timeout_s",
    type=click.FloatRange(min=0, min_open=True),
    default=3.0,
    show_default=True,
    help="Seconds to wait for each node.",
)
_JSON: Final = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
_FOLDER: Final = click.argument("data_dir", type=click.Path(path_type=Path))


class OneLineGroup(click.Group):
    """A group whose errors are one line on standard error, with status 2."""

    def main(self, *args: Any, **extra: Any) -> Any:
        """Run, and exit with what the command returned."""
        try:
            status = super().main(*args, **(extra | {"standalone_mode": False}))
        except click.ClickException as error:
            say(f"atleastonce: {' '.join(error.format_message().split())}")
            sys.exit(EXIT_USAGE)
        except (NoLogError, DirectoryLockedError, BadUrlError) as error:
            say(f"atleastonce: {error}")
            sys.exit(EXIT_USAGE)
        except DamagedLogError as error:
            say(f"atleastonce: {error.file}: damaged at byte {error.offset}: {error.reason}")
            say(f"remedy: {error.remedy}")
            sys.exit(EXIT_DAMAGED)
        except DamagedCheckpointError as error:
            say(f"atleastonce: {error.file}: damaged: {error.reason}")
            say(f"remedy: {error.remedy}")
            sys.exit(EXIT_DAMAGED)
        except (click.Abort, KeyboardInterrupt):
            say("atleastonce: interrupted")
            sys.exit(EXIT_UNWELL)
        except BrokenPipeError:
            # Whoever read our output has gone; the interpreter must not stumble over the rest.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            sys.exit(EXIT_UNWELL)
        sys.exit(status if isinstance(status, int) else EXIT_OK)


@click.group(cls=OneLineGroup)
@click.version_option(package_name="atleastonce")
def main() -> None:
    """The broker and the supervisor of atleastonce."""


@main.group()
def broker() -> None:
    """Run a node, ask nodes how they are, look into a node's data."""


@broker.command()
@click.argument("config", type=click.Path(path_type=Path))
def run(config: Path) -> int:
    """Run one node until SIGTERM. Status 2: bad CONFIG, 70: damaged data, 71: the disk failed."""
    # Late: the other commands need none of a node.
    from .process import run_process

    return run_process(str(config))


@broker.command()
@_URLS
@_TIMEOUT
@with_trust
@_JSON
def status(
    urls: Sequence[str],
    timeout_s: float,
    ca: Path | None,
    cert: Path | None,
    key: Path | None,
    as_json: bool,
) -> int:
    """Ask each node for its health; status 1 unless all of them are healthy."""
    trust = Trust(ca, cert, key)
    told = [ask_health(url, timeout_s, trust) for url in urls or (DEFAULT_URL,)]
    if as_json:
        click.echo(
            json.dumps([one.health or {"url": one.url, "error": one.trouble} for one in told])
        )
    else:
        for one in told:
            click.echo(_status_line(one))
    return EXIT_OK if all(one.is_healthy for one in told) else EXIT_UNWELL


def _status_line(told: Told) -> str:
    if not told.health:
        return f"{told.url}  unreachable: {told.trouble}"
    raft, disk = told.health.get("raft", {}), told.health.get("disk", {})
    quorum_ms = raft.get("quorumAckMs")
    heard = "never" if quorum_ms is None else f"{quorum_ms} ms ago"
    return (
        f"{told.health.get('node')}  {told.health.get('status')}  {raft.get('role')} of term "
        f"{raft.get('term')}, leader {raft.get('leader') or 'unknown'}, lag {raft.get('lag')}, "
        f"quorum heard {heard}, disk {disk.get('state')}"
    )


broker.add_command(members)


@broker.command("verify-data")
@_FOLDER
@_JSON
def verify_data(data_dir: Path, as_json: bool) -> int:
    """Read all of a stopped node's DATA_DIR and change nothing; status 70 when it is damaged."""
    folder = open_folder(data_dir)
    try:
        facts = verify(folder)
    finally:
        folder.close()
    if as_json:
        click.echo(json.dumps({"valid": True} | facts))
        return EXIT_OK
    click.echo(
        f"valid: {facts['segments']} segments, {facts['records']} records, "
        f"entries {facts['firstIndex']} to {facts['lastIndex']}, term {facts['term']}, "
        f"{facts['tornBytes']} torn bytes at the end; a checkpoint of entry "
        f"{facts['checkpoint']} with {facts['rows']} rows"
    )
    return EXIT_OK


@broker.command("dump-log")
@_FOLDER
@click.option("--commands", is_flag=True, help="Show commands whole; payloads as base64.")
def dump_log(data_dir: Path, commands: bool) -> int:
    """Print every record of a stopped node's log, one JSON object a line."""
    folder = open_folder(data_dir)
    try:
        for facts in dump(folder, commands):
            click.echo(json.dumps(facts))
    finally:
        folder.close()
    return EXIT_OK
