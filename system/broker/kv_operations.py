"""Key/value and lock operations, as the log carries them.

A namespace holds keys; each live key has one row with a JSON value and a version. Versions come
from one rising counter of the machine. A row with a lifetime is gone at the stamp at which that
ends, whether or not anybody has swept it.
"""

from __future__ import annotations

from typing import Final, Literal

import msgspec

KV_OPERATIONS_MAX: Final = 64
KV_KEYS_MAX: Final = 256
LOCK_NAMESPACE: Final = "queen-locks"
"""Where permits live: the row `name#slot`, its version the fencing token."""


class KvGet(msgspec.Struct, array_like=True, frozen=True, tag="get"):
    """One row."""

    ns: str
    key: str


class KvGetMany(msgspec.Struct, array_like=True, frozen=True, tag="getMany"):
    """Several rows, and which keys have none."""

    ns: str
    keys: tuple[str, ...]


class KvGetPrefix(msgspec.Struct, array_like=True, frozen=True, tag="getPrefix"):
    """A page of rows in key order, after a key."""

    ns: str
    prefix: str
    after: str = ""
    limit: int = 100
    keys_only: bool = False


class KvPut(msgspec.Struct, array_like=True, frozen=True, tag="put"):
    """Write a row.

    Attributes:
        ns: Namespace.
        key: Key.
        value: JSON bytes.
        ttl_s: Lifetime from the stamp; None means for ever.
        expect: None writes always, 0 only where no row is, N only over version N.
        required: Whether a lost precondition undoes the whole call.
        op: The name that the client used, echoed.
    """

    ns: str
    key: str
    value: bytes
    ttl_s: int | None
    expect: int | None = None
    required: bool = False
    op: Literal["put", "putIfAbsent"] = "put"


class KvIncr(msgspec.Struct, array_like=True, frozen=True, tag="incr"):
    """Add to a number, inside optional bounds; the lifetime counts only when this creates it."""

    ns: str
    key: str
    delta: int | float
    ttl_s: int | None
    low: int | float | None = None
    high: int | float | None = None
    required: bool = False


class KvDelete(msgspec.Struct, array_like=True, frozen=True, tag="delete"):
    """Remove a row."""

    ns: str
    key: str
    expect: int | None = None
    required: bool = False


class KvCheck(msgspec.Struct, array_like=True, frozen=True, tag="check"):
    """Ask whether a row is at a version (0: absent); writes nothing."""

    ns: str
    key: str
    expect: int
    required: bool = False


KvOperation = KvGet | KvGetMany | KvGetPrefix | KvPut | KvIncr | KvDelete | KvCheck
KvLook = KvGet | KvGetMany | KvGetPrefix | KvCheck
"""The operations that write nothing."""


class AcquireLock(msgspec.Struct, array_like=True, frozen=True, tag="acquire"):
    """Take one of `limit` permits; an owner that has one already gets the same again.

    An empty owner is minted.
    """

    name: str
    ttl_s: int
    owner: str = ""
    limit: int = 1


class RenewLock(msgspec.Struct, array_like=True, frozen=True, tag="renew"):
    """Begin a permit's lifetime anew, under a new token; a stale token of the owner will do."""

    name: str
    token: int
    ttl_s: int
    slot: int | None = None
    owner: str = ""


class ReleaseLock(msgspec.Struct, array_like=True, frozen=True, tag="release"):
    """Give a permit back."""

    name: str
    token: int
    slot: int | None = None


class GetLock(msgspec.Struct, array_like=True, frozen=True, tag="get"):
    """Who holds permits."""

    name: str


LockOperation = AcquireLock | RenewLock | ReleaseLock | GetLock


class Kv(msgspec.Struct, array_like=True, frozen=True, tag="kv"):
    """A batch, all or nothing. A repeat gets its first answer for 600 s."""

    request_id: str
    operations: tuple[KvOperation, ...]


class Locks(msgspec.Struct, array_like=True, frozen=True, tag="locks"):
    """Lock operations, each for itself. A repeat gets its first answer for 600 s."""

    request_id: str
    operations: tuple[LockOperation, ...]
