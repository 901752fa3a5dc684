"""Payloads of timers and dead letters once they are only in the message store.

Such a payload has a row under the id of its timer's message or of its dead letter. In memory it is
empty then; a payload is JSON and so never empty by itself.
"""

from __future__ import annotations

from typing import Final

import msgspec

from .replies import DeadLetter, TimerRow
from .rows import PAYLOADS, MessageStore

_NO_PARTITION: Final = bytes(8)
"""No partition has the number 0: these rows lie before those of runs."""


def payload_key(minted_id: str) -> bytes:
    """Key of the payload row of a timer's message or a dead letter."""
    return PAYLOADS + _NO_PARTITION + minted_id.encode()


def slim_timer(row: TimerRow) -> TimerRow:
    """The timer without its payload."""
    return msgspec.structs.replace(row, payload=b"")


def slim_letter(letter: DeadLetter) -> DeadLetter:
    """The dead letter without its payload."""
    slim = msgspec.structs.replace(letter.message, payload=b"")
    return msgspec.structs.replace(letter, message=slim)


def whole_timer(row: TimerRow, store: MessageStore | None) -> TimerRow:
    """The timer with its payload."""
    if row.payload:
        return row
    return msgspec.structs.replace(row, payload=_read(row.message_id, store))


def whole_letter(letter: DeadLetter, store: MessageStore | None) -> DeadLetter:
    """The dead letter with its payload."""
    if letter.message.payload:
        return letter
    payload = _read(letter.dead_letter_id, store)
    whole = msgspec.structs.replace(letter.message, payload=payload)
    return msgspec.structs.replace(letter, message=whole)


def _read(minted_id: str, store: MessageStore | None) -> bytes:
    assert store is not None, f"payload of {minted_id} is neither in memory nor in a store"
    return store.read(payload_key(minted_id))
