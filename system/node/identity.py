"""Which data folder this is: an id that a new folder gets and keeps, beside the log.

A node whose folder was lost has forgotten whom it voted for and what it acknowledged, and must not
pass for the voter that it was. The cluster remembers the id of each member's folder.
"""

from __future__ import annotations

import os
import uuid
from pathlib import Path
from typing import Final

import msgspec

from .config_error import ConfigError

IDENTITY_FILE: Final = "identity.json"


class Identity(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A data folder's id.

    Attributes:
        node: The node that made it.
        incarnation: The id.
        proven: Whether the folder is known to be the first one of this node.
    """

    node: str
    incarnation: str
    proven: bool


def load_identity(folder: Path, node: str, is_empty: bool, is_alone: bool) -> Identity:
    """Read a folder's identity, or give it one.

    Args:
        folder: The data folder, locked by this process.
        node: This node.
        is_empty: Whether neither a term nor an entry is stored. An empty folder gets a new
            identity if the one it has says that it was in use.
        is_alone: Whether the configuration names no other node.

    Raises:
        ConfigError: The file cannot be read or is another node's.
        OSError: It cannot be written.
    """
    path = folder / IDENTITY_FILE
    identity = None
    try:
        identity = msgspec.json.decode(path.read_bytes(), type=Identity)
    except FileNotFoundError:
        identity = None
    except (OSError, msgspec.MsgspecError) as error:
        raise ConfigError(f"data_dir: cannot read {path}: {error}") from None
    if identity is not None and identity.node != node:
        raise ConfigError(f"data_dir: {folder} is the folder of {identity.node!r}, not {node!r}")
    if identity is None or (is_empty and identity.proven and not is_alone):
        identity = Identity(node, uuid.uuid4().hex, proven=is_alone or not is_empty)
        save_identity(folder, identity)
    return identity


def save_identity(folder: Path, identity: Identity) -> None:
    """Write a folder's identity, durably and as a whole.

    Raises:
        OSError: The disk refuses.
    """
    path, new = folder / IDENTITY_FILE, folder / f"{IDENTITY_FILE}.new"
    with new.open("wb") as file:
        file.write(msgspec.json.encode(identity))
        file.flush()
        os.fsync(file.fileno())
    new.rename(path)
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
