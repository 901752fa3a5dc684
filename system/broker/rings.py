"""All ephemeral queues of one node: push, pop, ack, and what keeps them within their bounds.

Pure; times are given. An id is `e:<epoch>:<partition>:<number>`: the epoch names one leadership of
one node, so that an ack of another one's message is told from a lost lease.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, Literal

import msgspec

from .ephemeral_options import DeclareRing, RingOptions
from .ring import Delivered, Outcome, Ring, RingGroup, Tally

NODE_BYTES_MAX: Final = 256 << 20
IDLE_US: Final = 300 * 1_000_000
"""Implicit queues that hold nothing, and groups, go when nobody has used them for so long."""

Refusal = Literal["", "queue_full", "ephemeral_unavailable"]


class Pushed(msgspec.Struct, frozen=True):
    """How many messages were taken; none when `refusal` says why."""

    pushed: int
    refusal: Refusal = ""


class RingGauges(msgspec.Struct, frozen=True):
    """One queue as operators see it.

    Attributes:
        queue: Its name.
        is_declared: Or made by its first use.
        options: In force.
        depth: Messages held.
        bytes: Of their payloads.
        partitions: (name, pending, bytes).
        groups: (name, pending, skipped).
        drops: By bounds, by age, by the retry limit.
    """

    queue: str
    is_declared: bool
    options: RingOptions
    depth: int
    bytes: int
    partitions: tuple[tuple[str, int, int], ...]
    groups: tuple[tuple[str, int, int], ...]
    drops: tuple[int, int, int]


class _Queue:
    """One queue; `wide` are the groups that read all its partitions, also those to come."""

    __slots__ = ("dropped_by_age", "dropped_by_bounds", "rings", "turn", "used_us", "wide")

    def __init__(self, now_us: int) -> None:
        self.rings: dict[str, Ring] = {}
        self.wide: dict[str, int] = {}
        self.turn = 0
        self.dropped_by_bounds = 0
        self.dropped_by_age = 0
        self.used_us = now_us

    @property
    def length(self) -> int:
        return sum(map(len, self.rings.values()))

    @property
    def bytes(self) -> int:
        return sum(ring.bytes for ring in self.rings.values())


class Rings:
    """See the module.

    Attributes:
        epoch: Part of every id.
    """

    def __init__(self, epoch: str, declared: Mapping[str, DeclareRing]) -> None:
        self.epoch = epoch
        self._declared = declared
        self._queues: dict[str, _Queue] = {}
        self._tally = Tally()

    @property
    def held_bytes(self) -> int:
        """Of all payloads held."""
        return self._tally.bytes

    def options(self, name: str) -> RingOptions:
        """What is in force for a queue."""
        declared = self._declared.get(name)
        return (declared.options if declared is not None else RingOptions()).in_force

    def push(self, name: str, partition: str, payloads: Sequence[bytes], now_us: int) -> Pushed:
        """Take all messages or none."""
        options, queue = self.options(name), self._use(name, now_us)
        self._age(queue, options, now_us)
        size = sum(map(len, payloads))
        if self.held_bytes + size > NODE_BYTES_MAX:
            return Pushed(0, "ephemeral_unavailable")
        fits = len(payloads) <= options.max_length and size <= options.max_bytes
        if options.policy == "reject" or not fits:
            has_room = queue.length + len(payloads) <= options.max_length
            if not has_room or queue.bytes + size > options.max_bytes:
                return Pushed(0, "queue_full")
        ring = self._ring(queue, partition, now_us)
        for payload in payloads:
            ring.push(payload, now_us)
        while queue.length > options.max_length or queue.bytes > options.max_bytes:
            oldest = min(
                (each for each in queue.rings.values() if len(each)),
                key=lambda each: (each.oldest_us or 0, each is ring),
            )
            oldest.drop_oldest()
            queue.dropped_by_bounds += 1
        return Pushed(len(payloads))

    def pop(
        self,
        name: str,
        partition: str | None,
        group: str,
        count: int,
        is_final: bool,
        now_us: int,
    ) -> list[Delivered]:
        """Deliver from one partition, or from all of them in turn."""
        options, queue = self.options(name), self._use(name, now_us)
        self._age(queue, options, now_us)
        if partition is not None:
            ring = self._ring(queue, partition, now_us)
            return ring.take(group, count, options, now_us, is_final)
        queue.wide[group] = now_us
        queue.turn += 1
        rings = list(queue.rings.values())
        taken: list[Delivered] = []
        for place in range(len(rings)):
            ring = rings[(queue.turn + place) % len(rings)]
            taken += ring.take(group, count - len(taken), options, now_us, is_final)
        return taken

    def ready(self, name: str, partition: str | None, group: str, now_us: int) -> int:
        """How many messages a pop would find."""
        queue = self._queues.get(name)
        if queue is None:
            return 0
        options = self.options(name)
        self._age(queue, options, now_us)
        found = 0
        for ring in queue.rings.values():
            if partition in (None, ring.name):
                known = ring.groups.get(group)
                if known is not None:
                    ring.expire(known, options, now_us)
                found += ring.pending(group) - (len(known.leased) if known is not None else 0)
        return found

    def ack(self, name: str, group: str, message_id: str, completes: bool, now_us: int) -> Outcome:
        """Settle one message by its id."""
        epoch, partition, number = _parsed(message_id)
        if number is None:
            return "unknown"
        if epoch != self.epoch:
            return "stale"
        queue = self._queues.get(name)
        ring = queue.rings.get(partition) if queue is not None else None
        if ring is None:
            return "unknown"
        return ring.settle(group, number, completes, self.options(name), now_us)

    def reset(self, name: str) -> int:
        """Drop a queue's messages and leases; returns how many messages went."""
        queue = self._queues.get(name)
        return 0 if queue is None else sum(ring.clear() for ring in queue.rings.values())

    def remove(self, name: str) -> bool:
        """Forget a queue; returns whether there was one."""
        self.reset(name)
        return self._queues.pop(name, None) is not None

    def id_of(self, message: Delivered) -> str:
        """The id under which a consumer settles it."""
        return f"e:{self.epoch}:{message.partition}:{message.number}"

    def next_due_us(self, name: str, partition: str | None, group: str) -> int | None:
        """When time alone can make a message ready for a group."""
        queue = self._queues.get(name)
        rings = queue.rings.values() if queue is not None else ()
        dues = [
            due_us
            for ring in rings
            if partition in (None, ring.name) and (due_us := ring.next_due_us(group)) is not None
        ]
        return min(dues, default=None)

    def names(self) -> list[str]:
        """All queues, declared ones first."""
        return [*self._declared, *(name for name in self._queues if name not in self._declared)]

    def gauges(self, name: str, now_us: int) -> RingGauges | None:
        """One queue's numbers, or None when there is no such queue."""
        queue = self._queues.get(name)
        if queue is None:
            if name not in self._declared:
                return None
            queue = _Queue(now_us)
        options = self.options(name)
        self._age(queue, options, now_us)
        groups: dict[str, tuple[int, int]] = {}
        for ring in queue.rings.values():
            for group_name, group in ring.groups.items():
                pending, skipped = groups.get(group_name, (0, 0))
                groups[group_name] = (pending + ring.pending(group_name), skipped + group.skipped)
        retried = sum(ring.dropped_by_retry for ring in queue.rings.values())
        return RingGauges(
            name,
            name in self._declared,
            options,
            queue.length,
            queue.bytes,
            tuple([(ring.name, ring.pending(None), ring.bytes) for ring in queue.rings.values()]),
            tuple([(group_name, *counts) for group_name, counts in groups.items()]),
            (queue.dropped_by_bounds, queue.dropped_by_age, retried),
        )

    def pending(self, name: str, group: str) -> tuple[tuple[str, int, int], ...]:
        """(partition, pending, bytes) of one group."""
        queue = self._queues.get(name)
        rings = queue.rings.values() if queue is not None else ()
        return tuple([(ring.name, ring.pending(group), ring.bytes) for ring in rings])

    def sweep(self, now_us: int) -> None:
        """Drop what is too old and what nobody uses. Cost: queues, groups, and what goes."""
        for name, queue in list(self._queues.items()):
            self._age(queue, self.options(name), now_us)
            queue.wide = {
                key: used_us for key, used_us in queue.wide.items() if used_us + IDLE_US > now_us
            }
            for ring in queue.rings.values():
                idle = [
                    key
                    for key, group in ring.groups.items()
                    if key not in queue.wide and _is_idle(group, now_us)
                ]
                for key in idle:
                    del ring.groups[key]
                for group in ring.groups.values():
                    ring.expire(group, self.options(name), now_us)
                ring.let_go()
            if not queue.length and queue.used_us + IDLE_US <= now_us:
                del self._queues[name]

    def _use(self, name: str, now_us: int) -> _Queue:
        queue = self._queues.get(name)
        if queue is None:
            queue = self._queues[name] = _Queue(now_us)
        queue.used_us = now_us
        return queue

    def _ring(self, queue: _Queue, partition: str, now_us: int) -> Ring:
        ring = queue.rings.get(partition)
        if ring is None:
            ring = queue.rings[partition] = Ring(partition, self._tally)
            for group in queue.wide:
                ring.group(group, now_us)
        return ring

    def _age(self, queue: _Queue, options: RingOptions, now_us: int) -> None:
        if not options.ttl_s:
            return
        before_us = now_us - options.ttl_s * 1_000_000
        for ring in queue.rings.values():
            while (oldest_us := ring.oldest_us) is not None and oldest_us <= before_us:
                ring.drop_oldest()
                queue.dropped_by_age += 1


def _is_idle(group: RingGroup, now_us: int) -> bool:
    return not group.leased and group.used_us + IDLE_US <= now_us


def _parsed(message_id: str) -> tuple[str, str, int | None]:
    kind, _, rest = message_id.partition(":")
    epoch, _, rest = rest.partition(":")
    partition, _, number = rest.rpartition(":")
    is_ours = kind == "e" and number.isascii() and number.isdigit() and len(number) < 19
    return epoch, partition, int(number) if is_ours else None
