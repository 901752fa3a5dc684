"""Requests to a supervisor as files: one each, in a private folder of its state directory.

Whoever may write there may do anything to the supervisor anyway; so the folder and each file must
belong to this user alone, and anything else is left unread.
"""

from __future__ import annotations

import contextlib
import os
import re
import stat
from pathlib import Path
from typing import Final

import msgspec

from .core.control import Action, Control

FOLDER: Final = "controls"
BYTES_MAX: Final = 4096
_NAME: Final = re.compile(r"[0-9a-f]{8,64}\.json")
_PRIVATE_FILE: Final = 0o600


class ControlFileError(Exception):
    """A file that is no request of this user's; the message says why."""


class _Written(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    v: int
    action: str
    instance: str
    nonce: str
    asked_us: int
    ttl_s: int


def control_path(root: Path, nonce: str) -> Path:
    """Return where a request lies, `root` being the state directory."""
    return root / FOLDER / f"{nonce}.json"


def write_control(root: Path, control: Control) -> Path:
    """Put a request into a state directory, whole or not at all.

    Raises:
        OSError: The folder cannot be written.
    """
    path = control_path(root, control.nonce)
    beside = path.with_suffix(".new")
    plain = _Written(
        v=1,
        action=control.action.value,
        instance=control.instance,
        nonce=control.nonce,
        asked_us=control.asked_us,
        ttl_s=control.ttl_s,
    )
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
    with os.fdopen(os.open(beside, flags, _PRIVATE_FILE), "wb") as file:
        file.write(msgspec.json.encode(plain) + b"\n")
    beside.rename(path)
    return path


def list_controls(root: Path) -> list[Path]:
    """Return the requests that wait, the oldest first; other files are none."""
    found: list[tuple[int, Path]] = []
    for path in (root / FOLDER).iterdir():
        if _NAME.fullmatch(path.name):
            with contextlib.suppress(FileNotFoundError):
                found.append((path.lstat().st_mtime_ns, path))
    return [path for _, path in sorted(found)]


def take_control(path: Path) -> Control | None:
    """Read a request and delete it, so that it is read once; None when it was withdrawn.

    Raises:
        ControlFileError: It is a link, someone else's, open to others, too long, or unreadable.
    """
    try:
        raw = _read_private(path)
    except FileNotFoundError:
        return None
    finally:
        with contextlib.suppress(OSError):
            path.unlink()
    try:
        written = msgspec.json.decode(raw, type=_Written)
        action = Action(written.action)
    except (msgspec.DecodeError, ValueError) as error:
        raise ControlFileError(f"{path.name}: {error}") from None
    if f"{written.nonce}.json" != path.name:
        raise ControlFileError(f"{path.name}: holds the request {written.nonce!r}")
    return Control(action, written.instance, written.nonce, written.asked_us, written.ttl_s)


def _read_private(path: Path) -> bytes:
    try:
        # A pipe in its place would otherwise hold whoever opens it.
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise ControlFileError(f"{path.name}: {error.strerror}") from None
    try:
        seen = os.fstat(fd)
        if not stat.S_ISREG(seen.st_mode):
            raise ControlFileError(f"{path.name}: is no regular file")
        if seen.st_uid != os.getuid():
            raise ControlFileError(f"{path.name}: belongs to uid {seen.st_uid}")
        if stat.S_IMODE(seen.st_mode) & 0o077:
            raise ControlFileError(f"{path.name}: others may use it")
        if seen.st_size > BYTES_MAX:
            raise ControlFileError(f"{path.name}: {seen.st_size} bytes; at most {BYTES_MAX}")
        return os.read(fd, BYTES_MAX)
    finally:
        os.close(fd)
