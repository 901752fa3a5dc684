"""Whether a message says something that a correct server can say."""

from __future__ import annotations

from .members import decode_members
from .messages import NUMBER_MAX, AppendEntries, EntryKind


def are_in_range(*numbers: int) -> bool:
    """Whether all are terms, indexes or rounds."""
    return all(0 <= number <= NUMBER_MAX for number in numbers)


def is_coherent(message: AppendEntries) -> bool:
    """Whether every field is in range, and the entries are such as a leader can send.

    They follow `prev_index` without a gap, in terms from 1 up to the leader's that never fall.
    Linear in the number of entries.
    """
    term, index = message.prev_term, message.prev_index
    if index < 0 or term < 0 or (index == 0) != (term == 0):
        return False
    if message.commit_index < 0 or message.round < 0:
        return False
    for entry in message.entries:
        index += 1
        if entry.index != index or entry.term < term or entry.term == 0:
            return False
        if entry.kind is EntryKind.CONFIG and not _is_membership(entry.data):
            return False
        term = entry.term
    return term <= message.term <= NUMBER_MAX and index <= NUMBER_MAX


def _is_membership(data: bytes) -> bool:
    try:
        decode_members(data)
    except ValueError:
        return False
    return True
