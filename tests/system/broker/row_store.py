"""A checkpoint store in a dict, and machines that lose their memory at random."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

import msgspec

from atleastonce.system.broker.machine import Machine
from atleastonce.system.broker.partition import Partition
from atleastonce.system.broker.rows import PAYLOAD_PREFIX
from atleastonce.system.broker.state import State
from atleastonce.system.bugs import NO_BUGS, Bugs

DERIVED = {
    "_by_request",  # claims that are dead already may be found again
    "_budget",
    "_bugs",
    "_changes",
    "_due",
    "_fresh",
    "_ignores_leases",
    "_index",
    "_last",
    "_repeated",
    "_skipped",
    "_store",
    "_tickets",
    "_waiting",
    "body",
    "changed",
    "changes",
    "due_us",
    "ids",
    "is_awaited",
    "messages",
    "queries_changed",
    "rows_changed",
    "ticket",
    "touched",
    "traces_changed",
}
"""What no row holds: indexes, notes about rows, settings, and what only orders."""


class RowStore:
    """What the node's checkpoint store does, in memory.

    Attributes:
        rows: As committed.
        reads: How many payload rows were asked for.
    """

    def __init__(self) -> None:
        self.rows: dict[bytes, bytes] = {}
        self.reads = 0

    def read(self, key: bytes) -> bytes:
        assert key.startswith(PAYLOAD_PREFIX)
        self.reads += 1
        return self.rows[key]

    def checkpoint(self, machine: Machine) -> int:
        """One whole checkpoint; returns how many rows it wrote."""
        changes = machine.take_changes()
        self.commit(changes)
        machine.changes_durable()
        return len(changes)

    def commit(self, changes: list[tuple[bytes, bytes | None]]) -> None:
        assert len({key for key, _ in changes}) == len(changes)
        for key, value in changes:
            assert len(key) <= 64
            if value is None:
                self.rows.pop(key, None)
            else:
                self.rows[key] = value

    def scan(self) -> Iterator[tuple[bytes, bytes]]:
        """All rows but payloads, in the order of their keys."""
        for key in sorted(self.rows):
            if not key.startswith(PAYLOAD_PREFIX):
                yield key, self.rows[key]

    def restored(self, applied_index: int, bugs: Bugs = NO_BUGS) -> Machine:
        return Machine.restore(self.scan(), applied_index, bugs, self)


def state_of(machine: Machine) -> State:
    return machine._state


def plain(root: object) -> object:
    """Everything reachable from an object, as values that compare, without what is derived.

    Works on whatever attributes there are, so that no new one escapes.
    """
    seen: dict[int, int] = {}

    def walk(value: object) -> object:
        if value is None or isinstance(value, str | bytes | int | float | bool | type):
            return value
        if isinstance(value, dict):
            return [(walk(key), walk(each)) for key, each in _ordered(value)]
        if isinstance(value, set | frozenset):
            return sorted(map(repr, value))
        if isinstance(value, list | tuple | deque):
            return [walk(each) for each in value]
        is_value = isinstance(value, msgspec.Struct) and value.__struct_config__.frozen
        if not is_value:
            if id(value) in seen:
                return ("seen", seen[id(value)])
            seen[id(value)] = len(seen)
        named = [(name, walk(_of(value, name))) for name in fields(value)]
        return (type(value).__name__, named)

    return walk(root)


def difference(one: object, other: object, path: str = "") -> str:
    """Where two plain values differ first; empty when they do not."""
    if type(one) is type(other) and isinstance(one, list | tuple) and len(one) == len(other):  # type: ignore[arg-type]
        for place, (mine, theirs) in enumerate(zip(one, other, strict=True)):  # type: ignore[call-overload]
            found = difference(mine, theirs, f"{path}/{mine[0] if _is_named(mine) else place}")
            if found:
                return found
        return ""
    return "" if one == other else f"{path}: {one!r} != {other!r}"


def _is_named(value: object) -> bool:
    return isinstance(value, tuple) and len(value) == 2 and isinstance(value[0], str | int)


def _of(value: object, name: str) -> object:
    if isinstance(value, Partition) and name == "_runs":
        return list(value.remembered())
    attribute: object = getattr(value, name)
    return attribute


def _ordered(value: dict[object, object]) -> list[tuple[object, object]]:
    """By key: where the order of a dict matters, the digest looks at it."""
    return sorted(value.items(), key=lambda item: repr(item[0]))


def fields(value: object) -> list[str]:
    """Names of an object's attributes that are not derived."""
    if isinstance(value, msgspec.Struct):
        names = list(value.__struct_fields__)
    else:
        names = [*getattr(value, "__dict__", {}), *getattr(type(value), "__slots__", ())]
    return sorted(name for name in names if name not in DERIVED)
