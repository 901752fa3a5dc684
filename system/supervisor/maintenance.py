"""Maintenance: a file in the state directory that says so, whether or not a master runs.

While it is there the workers of every pool without `force` finish the job that they run, hand
back the rest and end, and none of them starts. It stays until it is switched off.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Final

import trio

FILE: Final = "maintenance"
LOOK_S: Final = 0.2
_PRIVATE_FILE: Final = 0o600


def is_maintained(root: Path) -> bool:
    """Tell whether a state directory is in maintenance; only a plain file of this user counts."""
    try:
        seen = (root / FILE).lstat()
    except OSError:
        return False
    return stat.S_ISREG(seen.st_mode) and seen.st_uid == os.getuid()


def switch_maintenance(root: Path, wanted: bool) -> None:
    """Switch maintenance on or off; what is so already stays so.

    Raises:
        OSError: The directory cannot be written, or something else lies there.
    """
    path = root / FILE
    if wanted:
        flags = os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
        os.close(os.open(path, flags, _PRIVATE_FILE))
    else:
        with contextlib.suppress(FileNotFoundError):
            path.unlink()


async def follow_maintenance(root: Path, obey: Callable[[bool], None]) -> None:
    """Say what holds, at once and every `LOOK_S` seconds; runs for ever.

    Args:
        root: The state directory.
        obey: Called with whether the directory is in maintenance; the same may be said again.
    """
    while True:
        obey(is_maintained(root))
        await trio.sleep(LOOK_S)
