"""What key/value and lock operations answer, before HTTP gives it a shape."""

from __future__ import annotations

import msgspec


class KvRow(msgspec.Struct, frozen=True):
    """One row.

    Attributes:
        ns: Namespace.
        key: Key.
        value: JSON bytes.
        version: From the machine's rising counter.
        updated_us: Stamp of its last write.
        expires_us: First instant at which it is gone, or None.
    """

    ns: str
    key: str
    value: bytes
    version: int
    updated_us: int
    expires_us: int | None = None

    def is_live(self, now_us: int) -> bool:
        """Whether it exists."""
        return self.expires_us is None or now_us < self.expires_us


class KvFound(msgspec.Struct, frozen=True, tag=True):
    """The row of a get, or None."""

    key: str
    row: KvRow | None


class KvListed(msgspec.Struct, frozen=True, tag=True):
    """Rows of getMany (`missing`) or of getPrefix (`truncated`)."""

    op: str
    rows: tuple[KvRow, ...]
    missing: tuple[str, ...] = ()
    truncated: bool = False
    keys_only: bool = False


class KvWritten(msgspec.Struct, frozen=True, tag=True):
    """A write's or a check's verdict, with the row as it is now (for a delete: as it was).

    `reason` is empty exactly when `applied`; `version` is 0 and `value` None without a row.
    """

    op: str
    key: str
    applied: bool
    reason: str = ""
    version: int = 0
    value: bytes | None = None
    expires_us: int | None = None


KvResult = KvFound | KvListed | KvWritten


class KvPrecondition(msgspec.Struct, frozen=True):
    """Which required operation did not hold, and the row that it met."""

    failed_index: int
    reason: str
    version: int
    value: bytes | None


class KvReply(msgspec.Struct, frozen=True):
    """In request order; without results when `lost` says what undid the batch."""

    results: tuple[KvResult, ...]
    lost: KvPrecondition | None = None


class LockHolder(msgspec.Struct, frozen=True):
    """One permit of a lock."""

    slot: int
    owner: str
    token: int
    since_us: int
    renewed_us: int
    expires_us: int | None


class LockResult(msgspec.Struct, frozen=True):
    """One lock operation's verdict.

    Attributes:
        op: acquire, renew, release or get.
        name: The lock.
        ok: Acquired, renewed, released or held.
        reason: "held" or "lost" when not ok, else empty.
        permit: The caller's permit, for acquire and renew.
        already: Whether an acquire found its own permit.
        holders: Everyone's permits, for get and for what failed.
    """

    op: str
    name: str
    ok: bool
    reason: str = ""
    permit: LockHolder | None = None
    already: bool = False
    holders: tuple[LockHolder, ...] = ()


class LocksReply(msgspec.Struct, frozen=True):
    """In request order."""

    results: tuple[LockResult, ...]
