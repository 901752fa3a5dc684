"""What the commands on jobs have in common: the broker that they ask, and how they fail."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import click

from ..client import BrokerError, ClientOptions, Endpoint, SyncClient
from .asking import Trust
from .member_command import DEFAULT_URL, EXIT_UNWELL, with_trust
from .saying import say

DEFAULT_PORT: Final = 6632


def with_client(command: Callable[..., int]) -> Callable[..., int]:
    """Give a command the options that say whom to ask, and a client as its first argument.

    What the broker refuses, or no node answers, is one line and status 1.
    """

    @functools.wraps(command)
    def run(
        *arguments: object,
        urls: tuple[str, ...],
        token_file: Path | None,
        timeout_s: float,
        ca: Path | None,
        cert: Path | None,
        key: Path | None,
        **options: object,
    ) -> int:
        with _client(urls, token_file, timeout_s, Trust(ca, cert, key)) as client:
            try:
                return command(client, *arguments, **options)
            except BrokerError as error:
                say(f"atleastonce: {error}")
                return EXIT_UNWELL

    wrapped: Callable[..., int] = run
    for option in (
        click.option(
            "--timeout",
            "timeout_s",
            type=click.FloatRange(min=0, min_open=True),
            default=30.0,
            show_default=True,
            help="Seconds to try each request for.",
        ),
        click.option(
            "--token-file",
            type=click.Path(path_type=Path),
            help="A file with the bearer token, where the broker asks for one.",
        ),
        click.option(
            "--url", "urls", multiple=True, help=f"A node; several may be named. [{DEFAULT_URL}]"
        ),
    ):
        wrapped = option(wrapped)
    return with_trust(wrapped)


@contextmanager
def _client(
    urls: tuple[str, ...], token_file: Path | None, timeout_s: float, trust: Trust
) -> Iterator[SyncClient]:
    endpoints: list[Endpoint] = []
    schemes: set[str] = set()
    for url in urls or (DEFAULT_URL,):
        parts = urlsplit(url)
        try:
            host, port = parts.hostname, parts.port
        except ValueError as error:
            raise click.UsageError(f"{url!r} is no URL: {error}") from None
        if parts.scheme not in ("http", "https") or not host:
            raise click.UsageError(f"{url!r} is no URL of a node; use http://HOST:PORT")
        schemes.add(parts.scheme)
        endpoints.append(Endpoint(host, port or (443 if parts.scheme == "https" else DEFAULT_PORT)))
    if len(schemes) > 1:
        raise click.UsageError("some URLs are http and some https; allowed: one of them")
    options = ClientOptions(
        min(5.0, timeout_s),
        timeout_s,
        tls=trust.context() if schemes == {"https"} else None,
        bearer=_token(token_file),
    )
    client = SyncClient(endpoints, options)
    try:
        yield client
    finally:
        client.close()


def _token(path: Path | None) -> str | None:
    if path is None:
        return None
    try:
        token = path.read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise click.UsageError(f"token-file: cannot read {path}: {error}") from None
    if not (token and token.isascii() and token.isprintable()):
        raise click.UsageError(f"token-file: {path} holds no token")
    return token
