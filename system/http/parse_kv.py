"""Key/value and lock operations: requests to commands and queries."""

from __future__ import annotations

import math
import re
from typing import Final

import msgspec
from msgspec import UNSET, Raw, UnsetType

from ..broker.kv_operations import (
    KV_KEYS_MAX,
    KV_OPERATIONS_MAX,
    AcquireLock,
    GetLock,
    Kv,
    KvCheck,
    KvDelete,
    KvGet,
    KvGetMany,
    KvGetPrefix,
    KvIncr,
    KvOperation,
    KvPut,
    LockOperation,
    Locks,
    ReleaseLock,
    RenewLock,
)
from ..broker.queries import KvRead
from .answer import coded_error
from .incoming import Incoming, clamped, decode, whole
from .request import ReadRequest, Write

KEY_BYTES_MAX: Final = 512
VALUE_BYTES_MAX: Final = 64 << 10
TTL_S_MAX: Final = 10 * 366 * 86_400
PAGE: Final = 100
PAGE_MAX: Final = 1000
LOCK_NAME_BYTES_MAX: Final = 256
LOCK_LIMIT_MAX: Final = 1024
LOCK_OPERATIONS_MAX: Final = 64

_NAMESPACE: Final = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")


class KvFields(msgspec.Struct, rename="camel"):
    """One operation as the wire has it; checked by hand, because the errors have names."""

    op: object = None
    ns: object = None
    key: object = None
    keys: object = None
    prefix: object = None
    after: object = None
    limit: object = None
    keys_only: object = None
    value: Raw = msgspec.field(default_factory=Raw)
    ttl_seconds: object = None
    forever: object = None
    expect: object = UNSET
    required: object = None
    delta: object = None
    min: object = None
    max: object = None


class _KvBody(msgspec.Struct):
    operations: list[KvFields]


class _LockFields(msgspec.Struct, rename="camel"):
    op: object = None
    name: object = None
    ttl_seconds: object = None
    owner: object = None
    limit: object = None
    token: object = None
    slot: object = None


class _LocksBody(msgspec.Struct):
    operations: list[_LockFields]


_KV: Final = msgspec.json.Decoder(_KvBody)
_KV_ONE: Final = msgspec.json.Decoder(KvFields)
_LOCKS: Final = msgspec.json.Decoder(_LocksBody)


def kv(incoming: Incoming) -> Write | ReadRequest:
    """POST /api/v1/kv; a batch that writes nothing does not enter the log."""
    operations = kv_operations(decode(_KV, incoming.body).operations)
    return _request(incoming, operations, "")


def kv_path(incoming: Incoming) -> Write | ReadRequest:
    """GET, PUT and DELETE /api/v1/kv/:ns/*key: one operation, one answer.

    The body of a PUT is the operation's fields (`value`, `ttlSeconds` or `forever`, `expect`);
    a DELETE takes `expect` as a parameter.
    """
    ns = incoming.part(4)
    incoming.parts[5:] = ["/".join(incoming.parts[5:])]
    key = incoming.part(5)
    if incoming.method == "GET":
        fields = KvFields(op="get", ns=ns, key=key)
    elif incoming.method == "PUT":
        fields = decode(_KV_ONE, incoming.body)
        fields.op, fields.ns, fields.key = "put", ns, key
    else:
        expect = incoming.parameters().get("expect")
        fields = KvFields(op="delete", ns=ns, key=key)
        if expect is not None:
            fields.expect = whole(expect)
    return _request(incoming, kv_operations([fields]), "one")


def kv_operations(
    operations: list[KvFields], in_transaction: bool = False
) -> tuple[KvOperation, ...]:
    """Check and convert operations.

    Raises:
        RefusedError: 400 or 413 with a code that begins with `kv_`.
    """
    if len(operations) > KV_OPERATIONS_MAX:
        raise _bad(
            "too_many_operations", f"{len(operations)} operations; at most {KV_OPERATIONS_MAX}"
        )
    converted = tuple([_operation(fields) for fields in operations])
    keys = sum(
        len(operation.keys) if isinstance(operation, KvGetMany) else 1 for operation in converted
    )
    if keys > KV_KEYS_MAX:
        raise _bad("too_many_keys", f"{keys} keys; at most {KV_KEYS_MAX}")
    if in_transaction and any(isinstance(operation, KvGetPrefix) for operation in converted):
        raise _bad("prefix_in_transaction", "getPrefix is not served inside a transaction")
    return converted


def locks(incoming: Incoming) -> Write:
    """POST /api/v1/locks."""
    operations = decode(_LOCKS, incoming.body).operations
    if len(operations) > LOCK_OPERATIONS_MAX:
        text = f"{len(operations)} operations; at most {LOCK_OPERATIONS_MAX}"
        raise _bad_lock("too_many_operations", text)
    return Write(Locks(incoming.request_id, tuple([_lock(fields) for fields in operations])))


def _request(
    incoming: Incoming, operations: tuple[KvOperation, ...], shape: str
) -> Write | ReadRequest:
    looks = tuple(
        [
            operation
            for operation in operations
            if isinstance(operation, KvGet | KvGetMany | KvGetPrefix)
        ]
    )
    if len(looks) == len(operations):
        return ReadRequest(KvRead(looks), shape)
    return Write(Kv(incoming.request_id, operations), shape)


def _operation(fields: KvFields) -> KvOperation:
    ns, op = fields.ns, fields.op
    if not isinstance(ns, str) or _NAMESPACE.fullmatch(ns) is None:
        raise _bad("namespace", f"ns must match {_NAMESPACE.pattern}, got {ns!r}")
    match op:
        case "get":
            return KvGet(ns, _key(fields.key))
        case "getMany":
            return _get_many(ns, fields)
        case "getPrefix":
            return _get_prefix(ns, fields)
        case "put" | "putIfAbsent":
            return _put(ns, fields, is_first=op == "putIfAbsent")
        case "incr":
            return _incr(ns, fields)
        case "delete":
            return KvDelete(ns, _key(fields.key), _expect(fields), fields.required is True)
        case "check":
            expect = _expect(fields)
            if expect is None:
                raise _bad("expect", "check needs expect: a version, or 0 for absent")
            return KvCheck(ns, _key(fields.key), expect, fields.required is True)
    raise coded_error(400, "kv_unknown_op", "op", f"no such operation: {op!r}")


def _get_many(ns: str, fields: KvFields) -> KvGetMany:
    if not isinstance(fields.keys, list) or not fields.keys:
        raise _bad("keys", "keys must be a list that is not empty")
    return KvGetMany(ns, tuple([_key(key) for key in fields.keys]))


def _get_prefix(ns: str, fields: KvFields) -> KvGetPrefix:
    prefix, after = fields.prefix, fields.after or ""
    if not isinstance(prefix, str) or not prefix:
        raise coded_error(400, "kv_prefix_required", "prefix", "prefix must not be empty")
    if not isinstance(after, str):
        raise _bad("after", f"after must be a key, got {after!r}")
    limit = fields.limit
    if limit is not None and (isinstance(limit, bool) or not isinstance(limit, int)):
        raise _bad("limit", f"limit must be a whole number, got {limit!r}")
    size = clamped(limit, PAGE, 1, PAGE_MAX)
    return KvGetPrefix(ns, prefix, after, size, fields.keys_only is True)


def _put(ns: str, fields: KvFields, is_first: bool) -> KvPut:
    value = bytes(fields.value)
    if not value:
        raise _bad("value", "value is missing; write null for an empty one")
    if len(value) > VALUE_BYTES_MAX:
        text = f"value has {len(value)} bytes; at most {VALUE_BYTES_MAX}"
        raise coded_error(413, "kv_value_too_large", "value", text)
    expect = _expect(fields)
    if is_first:
        if expect:
            raise _bad("expect", "putIfAbsent expects 0")
        expect = 0
    required = fields.required is True
    return KvPut(
        ns,
        _key(fields.key),
        value,
        _ttl_s(fields),
        expect,
        required,
        "putIfAbsent" if is_first else "put",
    )


def _incr(ns: str, fields: KvFields) -> KvIncr:
    if not isinstance(fields.expect, UnsetType):
        raise _bad("expect", "incr takes no expect")
    delta = _number("delta", fields.delta)
    return KvIncr(
        ns,
        _key(fields.key),
        1 if delta is None else delta,
        _ttl_s(fields),
        _number("min", fields.min),
        _number("max", fields.max),
        fields.required is True,
    )


def _key(key: object) -> str:
    if not isinstance(key, str) or not key or len(key.encode()) > KEY_BYTES_MAX:
        raise _bad("key", f"a key is a text of 1 to {KEY_BYTES_MAX} bytes, got {key!r}")
    return key


def _expect(fields: KvFields) -> int | None:
    expect = fields.expect
    if isinstance(expect, UnsetType):
        return None
    if isinstance(expect, bool) or not isinstance(expect, int) or not 0 <= expect < 1 << 63:
        raise _bad("expect", f"expect must be a version or 0, got {expect!r}")
    return expect


def _ttl_s(fields: KvFields) -> int | None:
    """The lifetime, None for ever; exactly one of the two fields says which."""
    ttl_s, forever = fields.ttl_seconds, fields.forever is True
    if forever is (ttl_s is not None):
        text = "exactly one of ttlSeconds and forever: true must be given"
        raise coded_error(400, "kv_expiry_not_specified", "expiry", text)
    return None if forever else _lifetime_s(ttl_s)


def _lifetime_s(ttl_s: object) -> int:
    if isinstance(ttl_s, bool) or not isinstance(ttl_s, int) or not 1 <= ttl_s <= TTL_S_MAX:
        raise _bad("ttl", f"ttlSeconds must be within 1..{TTL_S_MAX}, got {ttl_s!r}")
    return ttl_s


def _number(name: str, value: object) -> int | float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise _bad(name, f"{name} must be a number, got {value!r}")
    if not -(1 << 63) < value < 1 << 63:
        raise _bad(name, f"{name} must fit into 64 bits, got {value!r}")
    return value


def _lock(fields: _LockFields) -> LockOperation:
    name = _lock_text("name", fields.name)
    if "#" in name or not name:
        raise _bad_lock("name", "a lock's name must not be empty and has no '#'")
    owner = "" if fields.owner is None else _lock_text("owner", fields.owner)
    match fields.op:
        case "acquire":
            limit = _lock_number("limit", fields.limit, 1, LOCK_LIMIT_MAX)
            ttl_s = _lifetime_s(fields.ttl_seconds)
            return AcquireLock(name, ttl_s, owner, 1 if limit is None else limit)
        case "renew":
            ttl_s, slot = _lifetime_s(fields.ttl_seconds), _slot(fields)
            return RenewLock(name, _token(fields), ttl_s, slot, owner)
        case "release":
            return ReleaseLock(name, _token(fields), _slot(fields))
        case "get":
            return GetLock(name)
    raise coded_error(400, "locks_unknown_op", "op", f"no such operation: {fields.op!r}")


def _lock_text(name: str, value: object) -> str:
    if not isinstance(value, str) or len(value.encode()) > LOCK_NAME_BYTES_MAX:
        text = f"{name} must be a text of at most {LOCK_NAME_BYTES_MAX} bytes, got {value!r}"
        raise _bad_lock(name, text)
    if any(ord(sign) < 32 or 127 <= ord(sign) < 160 for sign in value):
        raise _bad_lock(name, f"{name} must not hold control characters")
    return value


def _token(fields: _LockFields) -> int:
    token = _lock_number("token", fields.token, 1, (1 << 63) - 1)
    if token is None:
        raise _bad_lock("token", "token is missing")
    return token


def _slot(fields: _LockFields) -> int | None:
    return _lock_number("slot", fields.slot, 0, LOCK_LIMIT_MAX)


def _lock_number(name: str, value: object, low: int, high: int) -> int | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise _bad_lock(name, f"{name} must be within {low}..{high}, got {value!r}")
    return value


def _bad(reason: str, detail: str) -> Exception:
    return coded_error(400, "kv_bad_request", reason, detail)


def _bad_lock(reason: str, detail: str) -> Exception:
    return coded_error(400, "locks_bad_request", reason, detail)
