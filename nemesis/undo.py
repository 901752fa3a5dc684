"""How to undo what a fault or a run made that is no process, once the run is dead.

A family adds its kinds of things here: each with the phase in which it is undone, and a function
that takes the object that stood in the ledger. It finds the thing whole, half made or gone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from typing import Final

import msgspec

from ..histories.ops import Json
from . import cgroups, ext4
from .clockshim.shim import put_right
from .limits import give_back


class Phase(IntEnum):
    """The order in which a dead run is undone; what comes first lets the rest happen."""

    GATES = 1
    THAW = 2
    RULES = 3
    CONTINUE = 4
    LIMITS = 5
    KILL = 6
    REMAINS = 7


class UndoError(Exception):
    """It cannot be undone; the message says what is left and what to do."""


@dataclass(frozen=True, slots=True)
class Undoing:
    """How one kind of thing is undone.

    Attributes:
        phase: When. `REMAINS` is for what living processes may use: mounts, loop devices,
            namespaces, files.
        undo: Takes what the ledger holds of it. Returns one plain sentence for each thing that it
            undid, none where nothing was left. Raises `UndoError` or `OSError`.
    """

    phase: Phase
    undo: Callable[[dict[str, Json]], list[str]]


class Bytes(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Bytes of a file that a fault changes; all in hexadecimal.

    Attributes:
        path: The file.
        offset: Where they lie.
        before: What they were.
        after: What the fault makes of them.
    """

    path: str
    offset: int
    before: str
    after: str


def put_back(thing: dict[str, Json]) -> list[str]:
    """Give a file its bytes back, if they are still what the fault left."""
    changed = msgspec.convert(thing, Bytes)
    after = bytes.fromhex(changed.after)
    try:
        with Path(changed.path).open("r+b") as file:
            file.seek(changed.offset)
            if file.read(len(after)) != after:
                return []
            file.seek(changed.offset)
            file.write(bytes.fromhex(changed.before))
    except FileNotFoundError:
        return []
    return [f"gave {changed.path} its {len(after)} bytes at {changed.offset} back"]


UNDO: Final[dict[str, Undoing]] = {
    "limit": Undoing(Phase.LIMITS, give_back),
    "time-of-day": Undoing(Phase.REMAINS, put_right),
    "bytes": Undoing(Phase.REMAINS, put_back),
    "ext4": Undoing(Phase.REMAINS, ext4.undo),
    "control-group": Undoing(Phase.REMAINS, cgroups.undo),
}
