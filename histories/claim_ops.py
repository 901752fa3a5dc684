"""Values of the operations of the workload `claim`: its clients write, its checker reads them."""

from __future__ import annotations

from typing import Final

import msgspec

CLAIM: Final = "claim"
READ: Final = "read"
FINAL_READ: Final = "final-read"


class Claim(msgspec.Struct, frozen=True, kw_only=True):
    """Invocation of `claim`: put a value of one's own, if the key has none.

    Attributes:
        key: The key.
        id: The value, unique in the run.
    """

    key: str
    id: str


class Claimed(msgspec.Struct, frozen=True, kw_only=True):
    """Completion `ok` of `claim`.

    Attributes:
        won: Whether the value was put.
        current: The value that the key has, as the answer tells it.
    """

    won: bool
    current: str | None


class ReadKey(msgspec.Struct, frozen=True, kw_only=True):
    """Invocation of `read`; `final` for those at the end."""

    key: str
    final: bool = False


class KeyValue(msgspec.Struct, frozen=True, kw_only=True):
    """Completion `ok` of `read`; None where the key is absent."""

    id: str | None
