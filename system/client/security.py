"""TLS and tokens towards the broker, from files."""

from __future__ import annotations

import ssl
from dataclasses import dataclass, field
from pathlib import Path

import msgspec


class SecurityFilesError(ValueError):
    """A file that cannot be used; the message names it, and quotes nothing of it."""


class SecurityFiles(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a client needs to speak to a broker that is guarded.

    Attributes:
        authority: PEM file; the nodes must show a certificate that it vouches for. None speaks
            without TLS.
        certificate: PEM file to show to nodes that ask for one.
        key: Its private key.
        passphrase_file: What the key is encrypted with, blanks trimmed.
        token_file: The bearer token (a JWT), blanks trimmed.
    """

    authority: str | None = None
    certificate: str | None = None
    key: str | None = None
    passphrase_file: str | None = None
    token_file: str | None = None


@dataclass(frozen=True, slots=True)
class Security:
    """What the files hold.

    Attributes:
        tls: Checks the nodes' certificates and shows one; None speaks without TLS.
        bearer: The token; None sends none.
    """

    tls: ssl.SSLContext | None = None
    bearer: str | None = field(default=None, repr=False)


def load_security(files: SecurityFiles | None) -> Security:
    """Read the files.

    Raises:
        SecurityFilesError: One of them cannot be read or used, or a setting misses another.
    """
    if files is None:
        return Security()
    token = _read("token_file", files.token_file)
    if token is not None and not (token.isascii() and token.isprintable() and token):
        raise SecurityFilesError(f"token_file: {files.token_file} holds no token")
    if files.authority is None:
        if files.certificate or files.key:
            named = "certificate" if files.certificate else "key"
            raise SecurityFilesError(f"{named}: authority is missing, so TLS is not spoken")
        return Security(None, token)
    return Security(_context(files, files.authority), token)


def _context(files: SecurityFiles, authority: str) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_verify_locations(authority)
    except (OSError, ValueError) as error:
        raise SecurityFilesError(f"authority: cannot use {authority}: {error}") from None
    if files.certificate is None:
        return context
    passphrase = _read("passphrase_file", files.passphrase_file) or ""
    try:
        # Given even if empty: an encrypted key is then refused instead of asked about.
        context.load_cert_chain(files.certificate, files.key, password=lambda: passphrase)
    except (OSError, ValueError) as error:
        raise SecurityFilesError(f"certificate: cannot use {files.certificate}: {error}") from None
    return context


def _read(name: str, path: str | None) -> str | None:
    if path is None:
        return None
    try:
        return Path(path).read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise SecurityFilesError(f"{name}: cannot read {path}: {error}") from None
