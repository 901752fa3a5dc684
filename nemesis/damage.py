"""Damage to a node's files while it is down: bits, tails, whole segments, an older copy."""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from ..histories.ops import Json
from .acts import NoBiteError

What = Literal["log", "vote", "checkpoint", "pointer", "identity"]
How = Literal["flip", "truncate", "zero"]

_LOG: Final = "*.wal"
_CHECKPOINT: Final = "*.mdb"
_POINTERS: Final = ("log/MANIFEST", "checkpoint/CURRENT")
_IDENTITY: Final = "identity.json"
_TAG: Final = b"\xa7WL"
"""Behind the type of each record of the log."""

_VOTE_TYPES: Final = (2, 5)
"""A term and vote of their own, and those that a segment begins with."""

_VOTE_BYTES: Final = 40
"""From a record's tag to the end of a vote for a node with a short name."""

_TAIL_BYTES: Final = 65_536
_PAGE_BYTES: Final = 4096
_TOLD_BYTES: Final = 32


class NothingToDamageError(NoBiteError):
    """The node has no such file, or nothing in it."""


@dataclass(frozen=True, slots=True)
class Change:
    """What was done to one file.

    Attributes:
        file: Its name.
        offset: Where the first changed byte lies.
        before: What was there, at most 32 bytes of it.
        after: What is there now; empty where the file ends.
        length: How many bytes are others, or gone.
    """

    file: str
    offset: int
    before: bytes
    after: bytes
    length: int

    def told(self) -> dict[str, Json]:
        """For the evidence, bytes in hexadecimal."""
        return {
            "file": self.file,
            "offset": self.offset,
            "before": self.before[:_TOLD_BYTES].hex(),
            "after": self.after[:_TOLD_BYTES].hex(),
            "length": self.length,
        }


def files_of(folder: Path, what: What) -> list[Path]:
    """The files of a node's data in which something of a kind is, the newest last."""
    if what in ("log", "vote"):
        return sorted(file for file in folder.rglob(_LOG) if _size(file))
    if what == "checkpoint":
        return sorted(folder.rglob(_CHECKPOINT))
    names = _POINTERS if what == "pointer" else (_IDENTITY,)
    return [folder / name for name in names if (folder / name).is_file()]


def _size(file: Path) -> int:
    """Of a file that a running node may have deleted meanwhile: 0 then."""
    try:
        return file.stat().st_size
    except FileNotFoundError:
        return 0


def damage(folder: Path, what: What, how: How, stream: random.Random) -> list[Change]:
    """Damage one file of a node that is down.

    Raises:
        NothingToDamageError: It has no such file, or nothing in it.
        OSError: The file cannot be written.
    """
    files = files_of(folder, what)
    if not files:
        raise NothingToDamageError(f"{folder.name} has no {what} to damage")
    if what == "vote":
        return _damage_vote(files[-1], how, stream)
    return _HOW[how](stream.choice(files[-3:]), stream)


def _damage_vote(file: Path, how: How, stream: random.Random) -> list[Change]:
    """Damage where the newest term and vote of a log stand."""
    content = file.read_bytes()
    found = max(content.rfind(bytes([kind]) + _TAG) for kind in _VOTE_TYPES)
    if found < 0:
        raise NothingToDamageError(f"{file.name} holds no vote")
    length = min(_VOTE_BYTES, len(content) - found)
    if how == "truncate":
        return [_cut(file, content, found + stream.randrange(length))]
    if how == "zero":
        return [_overwrite(file, found, content[found : found + length], bytes(length))]
    offset = found + stream.randrange(length)
    flipped = bytes([content[offset] ^ 1 << stream.randrange(8)])
    return [_overwrite(file, offset, content[offset : offset + 1], flipped)]


def _flip(file: Path, stream: random.Random) -> list[Change]:
    """Flip about two bits, anywhere in the file."""
    changes = []
    for _ in range(stream.choice((1, 2, 2, 3))):
        content = file.read_bytes()
        offset = stream.randrange(len(content))
        flipped = bytes([content[offset] ^ 1 << stream.randrange(8)])
        changes.append(_overwrite(file, offset, content[offset : offset + 1], flipped))
    return changes


def _truncate(file: Path, stream: random.Random) -> list[Change]:
    """Cut off a tail: as often at most 64 KiB as from anywhere."""
    content = file.read_bytes()
    size = len(content)
    least = max(0, size - _TAIL_BYTES) if stream.random() < 0.5 else 0
    return [_cut(file, content, stream.randrange(least, size))]


def _zero(file: Path, stream: random.Random) -> list[Change]:
    """Zero one page."""
    content = file.read_bytes()
    offset = stream.randrange(len(content)) // _PAGE_BYTES * _PAGE_BYTES
    page = content[offset : offset + _PAGE_BYTES]
    return [_overwrite(file, offset, page, bytes(len(page)))]


_HOW: Final[dict[How, Callable[[Path, random.Random], list[Change]]]] = {
    "flip": _flip,
    "truncate": _truncate,
    "zero": _zero,
}


def _overwrite(file: Path, offset: int, before: bytes, after: bytes) -> Change:
    descriptor = os.open(file, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.pwrite(descriptor, after, offset)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    return Change(file.name, offset, before, after, len(after))


def _cut(file: Path, content: bytes, size: int) -> Change:
    os.truncate(file, size)
    return Change(file.name, size, content[size:], b"", len(content) - size)


def delete_segment(folder: Path, stream: random.Random) -> list[Change]:
    """Delete a segment of the log that is sealed, so all but the newest.

    Raises:
        NothingToDamageError: There is none.
    """
    files = files_of(folder, "log")[:-1]
    if not files:
        raise NothingToDamageError(f"{folder.name} has no sealed segment to delete")
    file = stream.choice(files)
    content = file.read_bytes()
    file.unlink()
    return [Change(file.name, 0, content, b"", len(content))]


def replace_folder(folder: Path, by: Path) -> int:
    """Put a copy in the place of a node's data; returns how many bytes it has.

    Raises:
        OSError: It cannot be copied.
    """
    empty_folder(folder)
    shutil.copytree(by, folder, dirs_exist_ok=True)
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


def empty_folder(folder: Path) -> None:
    """Delete all that a folder holds, which may be where a file system is mounted.

    Raises:
        OSError: Something cannot be deleted.
    """
    for path in folder.iterdir():
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()
