"""`atleastonce supervisor status --remote`: the supervisors that a broker knows of.

Exit status: 0 when it was read, 1 when the broker did not answer, 2 when it cannot be asked.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

if TYPE_CHECKING:
    from ..client import SecurityFiles
    from .remote_status import RemoteStatus

EXIT_READ: Final = 0
EXIT_UNANSWERED: Final = 1
EXIT_REFUSED: Final = 2
DEFAULT_ENDPOINT: Final = "127.0.0.1:6632"
TIMEOUT_S: Final = 10.0
_F = TypeVar("_F", bound=Callable[..., Any])


def with_broker(command: _F) -> _F:
    """Add what says which broker to read from, and how to speak to it."""
    named = (
        ("authority", "PEM file that vouches for the nodes."),
        ("certificate", "PEM file to show to the nodes."),
        ("key", "Its private key."),
        ("passphrase-file", "What the key is encrypted with."),
        ("token-file", "The bearer token."),
    )
    for name, sentence in reversed(named):
        kind = click.Path(dir_okay=False)
        command = click.option(f"--{name}", type=kind, help=f"With --remote: {sentence}")(command)
    endpoint = click.option(
        "--endpoint",
        "endpoints",
        multiple=True,
        metavar="HOST:PORT",
        help=f"With --remote: a node of the broker; without any, {DEFAULT_ENDPOINT}.",
    )
    remote = click.option(
        "--remote", is_flag=True, help="Show every supervisor that publishes its status."
    )
    return remote(endpoint(command))


def show(
    endpoints: Sequence[str],
    security: SecurityFiles,
    as_json: bool,
    timeout_s: float = TIMEOUT_S,
) -> int:
    """Read every published status and print it.

    Args:
        endpoints: The broker's nodes, `host:port`.
        security: What a guarded broker asks for.
        as_json: Whether to print one JSON object.
        timeout_s: Longest time until one of them has answered.
    """
    from ..client import (
        BrokerError,
        ClientOptions,
        Endpoint,
        SecurityFilesError,
        SyncClient,
        load_security,
    )
    from .remote_status import list_call, read_listing

    nodes = []
    for text in endpoints:
        host, colon, port = text.rpartition(":")
        is_port = port.isdecimal() and 0 < int(port) < 65536
        if not (host and colon and is_port) or "/" in host:
            click.echo(f"status: --endpoint is {text!r}; want HOST:PORT", err=True)
            return EXIT_REFUSED
        nodes.append(Endpoint(host, int(port)))
    try:
        guarded = load_security(security)
    except SecurityFilesError as error:
        click.echo(f"status: --{str(error).replace('_', '-', 1)}", err=True)
        return EXIT_REFUSED
    try_s = timeout_s / len(nodes)
    options = ClientOptions(try_s, timeout_s, tls=guarded.tls, bearer=guarded.bearer)
    client = SyncClient(nodes, options)
    try:
        answer = client.call(list_call())
    except BrokerError as error:
        click.echo(f"status: {', '.join(endpoints)}: {error}", err=True)
        return EXIT_UNANSWERED
    finally:
        client.close()
    found, strange = read_listing(answer.value)
    if as_json:
        told = {
            "supervisors": [_plain(seen) for seen in found],
            "unreadable": strange,
            "truncated": answer.value[0].truncated,
        }
        click.echo(json.dumps(told))
        return EXIT_READ
    for line in _lines(found, strange):
        click.echo(line)
    if answer.value[0].truncated:
        click.echo(f"only the first {len(found) + len(strange)} are shown")
    return EXIT_READ


def _plain(seen: RemoteStatus) -> dict[str, Any]:
    import msgspec

    from .remote_status import age_s

    plain: dict[str, Any] = msgspec.to_builtins(seen)
    return plain | {"age_s": round(age_s(seen), 3)}


def _lines(found: Sequence[RemoteStatus], strange: Sequence[str]) -> Iterator[str]:
    from .remote_status import age_s

    if not found:
        yield "no supervisor publishes its status there"
    for seen in found:
        more = f", maintenance {seen.maintenance}" if seen.maintenance != "off" else ""
        more += f", {seen.not_consuming} get no jobs" if seen.not_consuming else ""
        yield (
            f"{seen.host} master {seen.master}: {seen.state}, {seen.living} of {seen.desired} "
            f"workers, {seen.workers.get('running', 0)} running, circuit {seen.circuit}, "
            f"code {seen.code}{more}, {age_s(seen):.1f} s ago"
        )
        if seen.start_failure is not None:
            yield f"  the code cannot be loaded: {seen.start_failure}"
        for pool in seen.pools:
            depth = f", depth {sum(pool.depths.values())}" if pool.depths else ""
            yield (
                f"  pool {pool.name}: {pool.active} of {pool.target} workers, circuit "
                f"{pool.circuit}{depth}"
            )
    for key in strange:
        yield f"{key}: its value is no status"
