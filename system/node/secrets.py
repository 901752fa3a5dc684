"""What a node knows and nobody may read elsewhere: it comes from files or the environment alone.

A file wins over the environment. What came from the environment is removed from it, so that no
child inherits it. No message of this module quotes a secret.
"""

from __future__ import annotations

import os
import stat
from collections.abc import MutableMapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from ..http.auth import SECRET_BYTES_MIN
from .config import NodeConfig
from .config_error import ConfigError

TOKEN_BYTES_MIN: Final = 16
TOKEN_VARIABLE: Final = "ATLEASTONCE_NODE_TOKEN"
JWT_VARIABLE: Final = "ATLEASTONCE_JWT_SECRET"
PASSPHRASE_VARIABLE: Final = "ATLEASTONCE_TLS_PASSPHRASE"

_FOR_EVERYONE: Final = stat.S_IROTH | stat.S_IWOTH


@dataclass(frozen=True, slots=True)
class Secrets:
    """All of a node's secrets.

    Attributes:
        token: What every node of the cluster knows.
        jwt: What clients' tokens are signed with; None without authentication.
        passphrase: What its TLS keys are encrypted with; empty for keys that are not.
    """

    token: bytes = field(repr=False)
    jwt: bytes | None = field(repr=False)
    passphrase: bytes = field(repr=False)


def read_secrets(config: NodeConfig, environment: MutableMapping[str, str]) -> Secrets:
    """Read what the settings name, or else the environment.

    Raises:
        ConfigError: The token is missing; a file cannot be read or is open to everyone on this
            host; or a secret is too short.
    """
    token = _read("token_file", config.token_file, TOKEN_VARIABLE, TOKEN_BYTES_MIN, environment)
    if token is None:
        raise ConfigError(f"token_file is missing, and {TOKEN_VARIABLE} is not set")
    jwt = _read(
        "jwt_secret_file", config.jwt_secret_file, JWT_VARIABLE, SECRET_BYTES_MIN, environment
    )
    passphrase = _read(
        "tls_passphrase_file", config.tls_passphrase_file, PASSPHRASE_VARIABLE, 1, environment
    )
    return Secrets(token, jwt, passphrase or b"")


def _read(
    name: str,
    path: str | None,
    variable: str,
    bytes_min: int,
    environment: MutableMapping[str, str],
) -> bytes | None:
    given = environment.pop(variable, None)
    if path is not None:
        return _read_file(name, Path(path), bytes_min)
    if given is None:
        return None
    return _long_enough(f"{variable}: it", os.fsencode(given).strip(), bytes_min)


def _read_file(name: str, path: Path, bytes_min: int) -> bytes:
    try:
        with path.open("rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            secret = file.read().strip()
    except OSError as error:
        raise ConfigError(f"{name}: cannot read {path}: {error.strerror}") from None
    _long_enough(f"{name}: {path}", secret, bytes_min)
    if mode & _FOR_EVERYONE:
        raise ConfigError(f"{name}: everyone on this host may read or write {path}; chmod 600 it")
    return secret


def _long_enough(what: str, secret: bytes, bytes_min: int) -> bytes:
    if len(secret) < bytes_min:
        raise ConfigError(f"{what} holds less than {bytes_min} bytes")
    return secret
