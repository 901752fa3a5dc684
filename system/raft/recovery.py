"""From what a disk holds after a restart to a log that the core can start from."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from .log import LogStart, RaftLog
from .members import Checkpoint
from .messages import Entry

__all__ = ["LogHoleError", "LogStart", "RecoveredLog", "recovered_log"]


class LogHoleError(ValueError):
    """Entries between the checkpoint and the start of the stored log are missing."""


class RecoveredLog(NamedTuple):
    """A log to start from.

    Attributes:
        log: The entries in memory.
        reset: When set, the stored log is of no use and must be reset so before the core starts:
            a received snapshot was activated, and the crash came before the log followed it.
    """

    log: RaftLog
    reset: LogStart | None


def recovered_log(
    entries: Sequence[Entry], start_index: int, checkpoint: Checkpoint
) -> RecoveredLog:
    """Fit stored entries to the checkpoint beside them.

    The term of the entry before the first one need not be stored: a log that starts past 1 gives
    its first entry up for that, unless the checkpoint ends just there and tells the term.

    Args:
        entries: As stored, from `start_index` on, without a gap.
        start_index: Index of the first stored entry, or of the next when there is none.
        checkpoint: What the state machine on disk holds.

    Raises:
        LogHoleError: The log starts behind the entry that follows the checkpoint.
    """
    if start_index > checkpoint.index + 1:
        raise LogHoleError(
            f"the log starts at entry {start_index}, the checkpoint ends at {checkpoint.index}"
        )
    last_index = start_index + len(entries) - 1
    if start_index == checkpoint.index + 1:
        return RecoveredLog(RaftLog(entries, start_index, checkpoint.term), None)
    if (
        last_index < checkpoint.index
        or entries[checkpoint.index - start_index].term != checkpoint.term
    ):
        start = LogStart(checkpoint.index, checkpoint.term)
        return RecoveredLog(RaftLog((), start.index + 1, start.term), start)
    if start_index == 1:
        return RecoveredLog(RaftLog(entries), None)
    return RecoveredLog(RaftLog(entries[1:], start_index + 1, entries[0].term), None)
