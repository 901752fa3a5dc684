"""The ends of a process that must not go on: nothing that waits may be answered any more."""

from __future__ import annotations

import os
from typing import Final, NoReturn

from ..storage.errors import DamagedCheckpointError, DiskFailedError
from .logbook import Logbook
from .saying import say

EXIT_BROKEN: Final = 1
EXIT_DAMAGED: Final = 70
EXIT_DISK_FAILED: Final = 71
EXIT_OUT_OF_MEMORY: Final = 72


def exit_disk_failed(logbook: Logbook, error: DiskFailedError) -> NoReturn:
    """End the process at once: the disk refused."""
    logbook.error("disk-failed", operation=error.operation, file=error.path, reason=error.cause)
    say(f"node: {error}")
    os._exit(EXIT_DISK_FAILED)


def exit_damaged(logbook: Logbook, error: DamagedCheckpointError) -> NoReturn:
    """End the process at once: what it would serve is not what was stored."""
    logbook.error("damaged-checkpoint", file=error.file, reason=error.reason)
    say(f"node: {error.file}: damaged: {error.reason}")
    say(f"remedy: {error.remedy}")
    os._exit(EXIT_DAMAGED)
