"""Answer bodies of KV and lock operations."""

from __future__ import annotations

import msgspec
from msgspec import UNSET, Raw, UnsetType


class KvFoundBody(msgspec.Struct, rename="camel"):
    """The row of a get; the last two only inside a transaction."""

    index: int
    op: str
    found: bool
    key: str
    value: Raw | None
    version: int
    expires_at: str | None
    updated_at: str | None
    op_index: int | UnsetType = UNSET
    type: str | UnsetType = UNSET


class KvRowBody(msgspec.Struct, rename="camel"):
    """One row of a list; without its value when only keys were asked for."""

    key: str
    version: int
    expires_at: str | None
    updated_at: str
    value: Raw | UnsetType = UNSET


class KvListedBody(msgspec.Struct, rename="camel"):
    """Rows of getMany or getPrefix."""

    index: int
    op: str
    rows: list[KvRowBody]
    truncated: bool
    missing: list[str] | UnsetType = UNSET
    next_after: str | UnsetType | None = UNSET
    op_index: int | UnsetType = UNSET
    type: str | UnsetType = UNSET


class KvWrittenBody(msgspec.Struct, rename="camel"):
    """A write's or a check's verdict."""

    index: int
    op: str
    key: str
    applied: bool
    version: int
    value: Raw | None
    expires_at: str | None
    reason: str | UnsetType = UNSET
    op_index: int | UnsetType = UNSET
    type: str | UnsetType = UNSET


KvBody = KvFoundBody | KvListedBody | KvWrittenBody


class KvResultsBody(msgspec.Struct):
    """A batch's results."""

    results: list[KvBody]


class KvLostBody(msgspec.Struct, rename="camel"):
    """A batch that a required operation undid."""

    ok: bool
    reason: str
    failed_index: int
    kv_reason: str
    version: int
    value: Raw | None


class GuardBody(msgspec.Struct):
    """The KV operation that holds while a permit does."""

    op: str
    ns: str
    key: str
    expect: int
    required: bool


class HolderBody(msgspec.Struct, rename="camel"):
    """One permit."""

    slot: int
    owner: str
    token: int
    since: str
    renewed_at: str
    expires_at: str | None


class LockBody(msgspec.Struct, rename="camel"):
    """One lock operation's verdict; which of the flags it has depends on the operation."""

    index: int
    op: str
    name: str
    acquired: bool | UnsetType = UNSET
    renewed: bool | UnsetType = UNSET
    released: bool | UnsetType = UNSET
    held: bool | UnsetType = UNSET
    reason: str | UnsetType = UNSET
    slot: int | UnsetType = UNSET
    token: int | UnsetType = UNSET
    owner: str | UnsetType = UNSET
    expires_at: str | UnsetType | None = UNSET
    guard: GuardBody | UnsetType = UNSET
    already: bool | UnsetType = UNSET
    holders: list[HolderBody] | UnsetType = UNSET


class LocksBody(msgspec.Struct):
    """Results of POST /locks."""

    results: list[LockBody]
