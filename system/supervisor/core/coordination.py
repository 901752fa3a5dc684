"""How replicas of one application share its workers, each by itself and all to one sum.

Replicas that consume the same queues for the same group are a *scope*. Each knows the sorted ids of
all of them (a `View`) and computes its own share of the target from that alone: nobody is elected,
nothing is assigned. With equal views the shares add up to the target. A view with more members
never gives more, so while members are only added nobody runs too few.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

SCOPE_MEMBERS_MAX: Final = 100
"""Replicas of a scope that share; any further one is a reserve without a share."""

_FNV_OFFSET: Final = 0xCBF29CE484222325
_FNV_PRIME: Final = 0x100000001B3
_MASK: Final = (1 << 64) - 1


def fnv1a_64(data: bytes) -> int:
    """Return the FNV-1a hash of 64 bits."""
    value = _FNV_OFFSET
    for byte in data:
        value = ((value ^ byte) * _FNV_PRIME) & _MASK
    return value


def name_scope(endpoints: Iterable[str], group: str, queues: Iterable[str]) -> str:
    """Return a scope's name, 16 hex digits: the same whatever the order of its parts.

    Args:
        endpoints: The broker's nodes, `host:port`.
        group: The consumer group.
        queues: What is consumed.
    """
    lists = (sorted(set(endpoints)), [group], sorted(set(queues)))
    return f"{fnv1a_64(b''.join(_pack(texts) for texts in lists)):016x}"


def _pack(texts: list[str]) -> bytes:
    """Join texts so that no two lists of them give the same bytes."""
    packed = [f"{len(texts)};".encode()]
    for text in texts:
        data = text.encode()
        packed.append(b"%d:%b" % (len(data), data))
    return b"".join(packed)


@dataclass(frozen=True, slots=True)
class View:
    """A scope's replicas as one of them sees it.

    Attributes:
        own: This replica's id.
        members: All ids that share, sorted; a reserve is not among them.
    """

    own: str
    members: tuple[str, ...]

    @property
    def count(self) -> int:
        """How many share; at least 1."""
        return len(self.members)

    @property
    def position(self) -> int | None:
        """Index of this replica among those that share; None of a reserve."""
        return self.members.index(self.own) if self.own in self.members else None

    @property
    def is_alone(self) -> bool:
        """Whether no other replica shares."""
        return self.members == (self.own,)


def make_view(own: str, listed: Iterable[str]) -> View:
    """Make the view of replica `own` from the ids that the broker listed."""
    return View(own, tuple(sorted({own, *listed})[:SCOPE_MEMBERS_MAX]))


def share(target: int, active: int, view: View) -> int:
    """Return how many of the scope's workers this replica runs.

    The sum over all replicas is `target`, or `active` rounded up to a multiple of their number if
    that is more: a replica has a worker for each queue that it covers, whatever the others see.

    Args:
        target: Workers that the whole scope wants, before any replica's own bounds.
        active: Queues with backlog of a pool that is balanced over them; 0 of any other pool.
        view: The replicas.
    """
    assert target >= 0, f"a target of {target}"
    assert active >= 0, f"{active} active queues"
    position = view.position
    if position is None:
        return 0
    whole, rest = divmod(target, view.count)
    return max(whole + (position < rest), -(-active // view.count))


def bounded_share(
    target: int, active: int, view: View, processes_min: int, processes_max: int
) -> int:
    """Return the share within the replica's own bounds; see `share`."""
    return min(max(share(target, active, view), processes_min), processes_max)


def first_covered(active: int, view: View) -> int:
    """Return the index, among the queues with backlog, where this replica begins to cover them.

    It covers `ceil(active / count)` queues from there on, so that all replicas together cover all.
    """
    assert active >= 0, f"{active} active queues"
    return (view.position or 0) * active // view.count
