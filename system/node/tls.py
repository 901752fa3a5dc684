"""TLS for either port: contexts from files, the accepting side, the dialing side.

Clients may be asked for certificates. Nodes always ask each other for one, and check that it
is valid for the address that they dial; the token is checked behind that all the same.
"""

from __future__ import annotations

import ssl
import stat
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final

import msgspec
import trio

from .config_error import ConfigError
from .links import Dial, dial_tcp

HANDSHAKE_TIMEOUT_S: Final = 10.0
HANDSHAKES_MAX: Final = 128

_FOR_EVERYONE: Final = stat.S_IROTH | stat.S_IWOTH


class TlsFiles(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """PEM files.

    Attributes:
        certificate: This node's, and those between it and its authority.
        key: Its private key, readable by nobody else; it may be encrypted with a passphrase.
        authority: Whose certificates the other side must show; None asks for none.
    """

    certificate: str
    key: str
    authority: str | None = None


def server_context(name: str, files: TlsFiles, passphrase: bytes = b"") -> ssl.SSLContext:
    """For the accepting side.

    Args:
        name: Of the setting, for messages.
        files: Where the keys are.
        passphrase: Of the key; empty for one that is not encrypted.

    Raises:
        ConfigError: A file cannot be used.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    if files.authority is not None:
        context.verify_mode = ssl.CERT_REQUIRED
    return _loaded(name, context, files, passphrase)


def dialing_context(name: str, files: TlsFiles, passphrase: bytes = b"") -> ssl.SSLContext:
    """For the dialing side, which shows its own certificate and checks the other's.

    Raises:
        ConfigError: A file cannot be used, or there is no authority to check by.
    """
    if files.authority is None:
        raise ConfigError(f"{name}: authority is missing; nodes check each other's certificates")
    return _loaded(name, ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT), files, passphrase)


def _loaded(
    name: str, context: ssl.SSLContext, files: TlsFiles, passphrase: bytes
) -> ssl.SSLContext:
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        mode = Path(files.key).stat().st_mode
    except OSError as error:
        raise ConfigError(f"{name}: cannot read {files.key}: {error.strerror}") from None
    if mode & _FOR_EVERYONE:
        raise ConfigError(f"{name}: everyone on this host may read {files.key}; chmod 600 it")
    try:
        # Given even if empty: an encrypted key is then refused instead of asked about.
        context.load_cert_chain(files.certificate, files.key, password=lambda: passphrase)
    except (OSError, ValueError) as error:
        reason = f"{files.certificate}, {files.key}: {error}"
        raise ConfigError(f"{name}: cannot use {reason}") from None
    if files.authority is not None:
        try:
            context.load_verify_locations(files.authority)
        except (OSError, ValueError) as error:
            raise ConfigError(f"{name}: cannot use {files.authority}: {error}") from None
    return context


Serve = Callable[[trio.abc.Stream], Awaitable[None]]
"""Serves one connection until it ends."""


class TlsDoor:
    """Accepts connections, lets a bounded number of them agree on keys, and serves them then."""

    def __init__(self, context: ssl.SSLContext, serve: Serve) -> None:
        self._context = context
        self._serve = serve
        self._handshakes = 0

    async def serve(self, stream: trio.abc.Stream) -> None:
        """Serve one connection; whoever cannot agree on keys is hung up on."""
        if self._handshakes >= HANDSHAKES_MAX:
            await trio.aclose_forcefully(stream)
            return
        secured = trio.SSLStream(stream, self._context, server_side=True, https_compatible=True)
        self._handshakes += 1
        try:
            with trio.fail_after(HANDSHAKE_TIMEOUT_S):
                await secured.do_handshake()
        except (trio.BrokenResourceError, trio.TooSlowError):
            await trio.aclose_forcefully(stream)
            return
        finally:
            self._handshakes -= 1
        await self._serve(secured)


def dial_tls(context: ssl.SSLContext) -> Dial:
    """Open connections to peers by TLS."""

    async def dial(address: tuple[str, int]) -> trio.abc.Stream:
        stream = await trio.open_tcp_stream(*address)
        secured = trio.SSLStream(stream, context, server_hostname=address[0], https_compatible=True)
        try:
            await secured.do_handshake()
        except BaseException:
            await trio.aclose_forcefully(stream)
            raise
        return secured

    return dial


class Doors:
    """How connections come in and go out, with TLS where the settings say so.

    Attributes:
        dial: Opens connections to peers.

    Raises:
        ConfigError: A file cannot be used.
    """

    def __init__(
        self, client: TlsFiles | None, peer: TlsFiles | None, passphrase: bytes = b""
    ) -> None:
        self.dial: Dial = dial_tcp
        self._client = self._peer = None
        if client is not None:
            self._client = server_context("client_tls", client, passphrase)
        if peer is not None:
            self._peer = server_context("peer_tls", peer, passphrase)
            self.dial = dial_tls(dialing_context("peer_tls", peer, passphrase))

    def client(self, serve: Serve) -> Serve:
        """What serves the client port."""
        return serve if self._client is None else TlsDoor(self._client, serve).serve

    def peer(self, serve: Serve) -> Serve:
        """What serves the peer port."""
        return serve if self._peer is None else TlsDoor(self._peer, serve).serve
