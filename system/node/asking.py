"""Asking running nodes how they are, over their client ports."""

from __future__ import annotations

import http.client
import os
import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import msgspec

from .secrets import PASSPHRASE_VARIABLE

ANSWER_BYTES_MAX: Final = 1 << 20


class BadUrlError(ValueError):
    """Not the URL of a node, or no files to ask it with; the message names it."""


@dataclass(frozen=True, slots=True)
class Trust:
    """PEM files for `https`.

    Attributes:
        authority: Certificates to trust; None for the system's.
        certificate: Shown to nodes that ask for one.
        key: Its private key; encrypted ones need `PASSPHRASE_VARIABLE` in the environment.
    """

    authority: Path | None = None
    certificate: Path | None = None
    key: Path | None = None

    def context(self) -> ssl.SSLContext:
        """Read the files.

        Raises:
            BadUrlError: One of them cannot be used.
        """
        try:
            context = ssl.create_default_context(cafile=self.authority)
        except OSError as error:
            reason = f"cannot use the certificates in {self.authority}: {error}"
            raise BadUrlError(reason) from None
        if self.certificate is not None:
            # Given even if empty: an encrypted key is then refused instead of asked about.
            passphrase = os.environ.get(PASSPHRASE_VARIABLE, "")
            try:
                context.load_cert_chain(self.certificate, self.key, password=lambda: passphrase)
            except (OSError, ValueError) as error:
                raise BadUrlError(f"cannot use {self.certificate}: {error}") from None
        return context


@dataclass(frozen=True, slots=True)
class Told:
    """What one node says, or why it says nothing.

    Attributes:
        url: Where it was asked.
        health: The body of `/health`, an empty one when there is none.
        trouble: Why there is none.
    """

    url: str
    health: dict[str, Any]
    trouble: str = ""

    @property
    def is_healthy(self) -> bool:
        """Whether it says so itself."""
        return self.health.get("status") == "healthy"


def ask_health(url: str, timeout_s: float, trust: Trust) -> Told:
    """Ask one node.

    Args:
        url: `http://host:port` or `https://host:port`.
        timeout_s: How long to wait for it.
        trust: For `https`.

    Raises:
        BadUrlError: That is no such URL.
    """
    connection = _connect(url, timeout_s, trust)
    try:
        connection.request("GET", "/health")
        body = connection.getresponse().read(ANSWER_BYTES_MAX)
        health = msgspec.json.decode(body, type=dict[str, Any])
    except (OSError, http.client.HTTPException, msgspec.MsgspecError) as error:
        return Told(url, {}, str(error) or type(error).__name__)
    finally:
        connection.close()
    return Told(url, health)


def send(
    url: str,
    method: str,
    path: str,
    body: object,
    headers: dict[str, str],
    timeout_s: float,
    trust: Trust,
) -> tuple[int, dict[str, Any]]:
    """Send a request to one node; returns the status and the body.

    Raises:
        BadUrlError: That is no such URL.
        OSError: The node does not answer, or not by JSON.
    """
    connection = _connect(url, timeout_s, trust)
    try:
        data = None if body is None else msgspec.json.encode(body)
        connection.request(method, path, data, headers)
        response = connection.getresponse()
        content = response.read(ANSWER_BYTES_MAX)
        return response.status, msgspec.json.decode(content, type=dict[str, Any])
    except (http.client.HTTPException, msgspec.MsgspecError) as error:
        raise OSError(str(error) or type(error).__name__) from None
    finally:
        connection.close()


def _connect(url: str, timeout_s: float, trust: Trust) -> http.client.HTTPConnection:
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError as error:
        raise BadUrlError(f"{url!r} is no URL: {error}") from None
    if parts.scheme not in ("http", "https") or not host:
        raise BadUrlError(f"{url!r} is no URL of a node; use http://HOST:PORT")
    if parts.scheme == "https":
        return http.client.HTTPSConnection(host, port, timeout=timeout_s, context=trust.context())
    return http.client.HTTPConnection(host, port or 6632, timeout=timeout_s)
