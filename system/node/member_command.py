"""`atleastonce broker members`: who belongs to the cluster, and changes of that."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final, TypeVar
from urllib.parse import quote

import click

from .asking import Trust, ask_health, send
from .saying import say

EXIT_OK: Final = 0
EXIT_UNWELL: Final = 1
DEFAULT_URL: Final = "http://127.0.0.1:6632"

_PATH: Final = "/api/v1/cluster/members"
_ACTIONS: Final = {
    "add": "NODE [--address IP:PORT]",
    "promote": "NODE",
    "remove": "NODE",
    "replace": "NODE",
    "set": "NODE...",
}


Command = TypeVar("Command", bound=Callable[..., int])


def with_trust(command: Command) -> Command:
    """Give a command the options that make a `Trust`."""
    file = click.Path(path_type=Path)
    for option in (
        click.option("--key", type=file, help="The private key of --cert."),
        click.option("--cert", type=file, help="The certificate for nodes that ask for one."),
        click.option("--ca", type=file, help="Certificates to trust for https URLs."),
    ):
        command = option(command)
    return command


@click.command()
@click.argument("words", nargs=-1, metavar="[URL]... | ACTION NODE...")
@click.option("--url", "urls", multiple=True, help="A node to ask; may be given several times.")
@click.option("--address", help="Where the added node's peers reach it, as IP:PORT.")
@click.option(
    "--token-file",
    type=click.Path(path_type=Path),
    help="A file with the bearer token of an admin, where the cluster asks for one.",
)
@click.option(
    "--timeout",
    "timeout_s",
    type=click.FloatRange(min=0, min_open=True),
    default=30.0,
    show_default=True,
    help="Seconds to wait for each node.",
)
@with_trust
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def members(
    words: Sequence[str],
    urls: Sequence[str],
    address: str | None,
    token_file: Path | None,
    timeout_s: float,
    ca: Path | None,
    cert: Path | None,
    key: Path | None,
    as_json: bool,
) -> int:
    """List the members, or change them.

    Actions: add NODE [--address IP:PORT] (as a learner), promote NODE, remove NODE, replace NODE
    (whose data folder was lost), set NODE... (these become the voters). Any node takes them.
    """
    trust = Trust(ca, cert, key)
    if not words or words[0] not in _ACTIONS:
        return _show([*words, *urls] or [DEFAULT_URL], timeout_s, trust, as_json)
    action, nodes = words[0], words[1:]
    if not nodes or (action != "set" and len(nodes) > 1):
        raise click.UsageError(f"usage: atleastonce broker members {action} {_ACTIONS[action]}")
    headers = {"x-deadline-ms": str(round(min(timeout_s, 60.0) * 900))}
    if token_file is not None:
        headers["authorization"] = f"Bearer {_read(token_file)}"
    method, path, body = _request(action, nodes, address)
    for url in urls or (DEFAULT_URL,):
        try:
            status, answer = send(url, method, path, body, headers, timeout_s, trust)
        except OSError as error:
            say(f"atleastonce: {url}: {error}")
            continue
        if status == 200:
            _print(answer, as_json)
            return EXIT_OK
        say(f"atleastonce: {status} {answer.get('code')}: {answer.get('error')}")
        return EXIT_UNWELL
    return EXIT_UNWELL


def _read(path: Path) -> str:
    try:
        return path.read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise click.UsageError(f"token-file: cannot read {path}: {error}") from None


def _request(action: str, nodes: Sequence[str], address: str | None) -> tuple[str, str, object]:
    """Method, path and body of an action."""
    named = f"{_PATH}/{quote(nodes[0], safe='')}"
    if action == "add":
        return "POST", _PATH, {"node": nodes[0], "address": address}
    if action == "set":
        return "PUT", _PATH, {"voters": list(nodes)}
    if action == "remove":
        return "DELETE", named, None
    return "POST", f"{named}/{action}", None


def _show(urls: Sequence[str], timeout_s: float, trust: Trust, as_json: bool) -> int:
    """What the first node that answers knows; without its leader's help."""
    told = [ask_health(url, timeout_s, trust) for url in urls]
    first = next((one for one in told if one.health), None)
    if first is None:
        say(f"atleastonce: no node answers: {told[0].url}: {told[0].trouble}")
        return EXIT_UNWELL
    raft = first.health.get("raft", {})
    rows = {
        role: [{"node": node, "leads": node == raft.get("leader")} for node in raft.get(role, [])]
        for role in ("voters", "learners")
    }
    if as_json:
        click.echo(json.dumps({"term": raft.get("term")} | rows))
        return EXIT_OK
    for role, nodes in rows.items():
        for row in nodes:
            click.echo(f"{row['node']}  {role[:-1]}{'  leads' if row['leads'] else ''}")
    return EXIT_OK


def _print(answer: dict[str, Any], as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps(answer))
        return
    for member in answer["members"]:
        leads = "  leads" if member["leads"] else ""
        lag = member["lag"]
        click.echo(
            f"{member['node']}  {member['role']}{leads}  lag {'unknown' if lag is None else lag}"
        )
