"""One partition of an ephemeral queue: messages in memory, and where each group reads.

Pure, and not replicated: it lives in the leader and dies with its leadership. A group has a cursor
and, between the cursor and the head, single messages that are leased or came back. What every
group has settled is let go at once; without a group everything stays until a bound takes it.
"""

from __future__ import annotations

from collections import deque
from heapq import heappop, heappush
from typing import Literal, NamedTuple

import msgspec

from .ephemeral_options import RingOptions

Outcome = Literal["acked", "redelivered", "stale", "unknown"]


class RingMessage(NamedTuple):
    """One message; `payload` is JSON bytes."""

    number: int
    payload: bytes
    created_us: int


class Delivered(msgspec.Struct, frozen=True):
    """One message on its way to a consumer; `attempts` counts earlier deliveries."""

    partition: str
    number: int
    payload: bytes
    attempts: int


class RingGroup:
    """Where one group reads.

    Attributes:
        next: Number of the first message never delivered to it.
        leased: Number to (lease expiry, attempts) of what is out.
        returned: Numbers that are to be delivered again, lowest first.
        attempts: Number to earlier deliveries of what is in `returned`.
        skipped: Messages that were dropped before it had read them.
        used_us: When it last popped.
    """

    __slots__ = ("attempts", "leased", "next", "returned", "skipped", "used_us")

    def __init__(self, first: int, now_us: int) -> None:
        self.next = first
        self.leased: dict[int, tuple[int, int]] = {}
        self.returned: list[int] = []
        self.attempts: dict[int, int] = {}
        self.skipped = 0
        self.used_us = now_us

    def low(self) -> int:
        """Number below which it has settled everything."""
        return min([self.next, *self.leased, *self.returned])


class Tally:
    """What all partitions of a node hold together.

    Attributes:
        bytes: Of payloads.
    """

    __slots__ = ("bytes",)

    def __init__(self) -> None:
        self.bytes = 0


class Ring:
    """One partition.

    Attributes:
        name: Its name.
        groups: By name; the empty name is queue mode.
        bytes: Of the payloads held.
        dropped_by_retry: Messages that a group failed too often.
    """

    __slots__ = ("_end", "_messages", "_tally", "bytes", "dropped_by_retry", "groups", "name")

    def __init__(self, name: str, tally: Tally) -> None:
        self.name = name
        self._tally = tally
        self.groups: dict[str, RingGroup] = {}
        self.bytes = 0
        self.dropped_by_retry = 0
        self._messages: deque[RingMessage] = deque()
        self._end = 0

    def __len__(self) -> int:
        return len(self._messages)

    @property
    def first(self) -> int:
        """Number of the oldest message held; of the next one when there is none."""
        return self._messages[0].number if self._messages else self._end

    @property
    def oldest_us(self) -> int | None:
        """When the oldest message came."""
        return self._messages[0].created_us if self._messages else None

    def push(self, payload: bytes, now_us: int) -> None:
        """Add a message."""
        self._messages.append(RingMessage(self._end, payload, now_us))
        self._end += 1
        self._weigh(len(payload))

    def drop_oldest(self) -> None:
        """Take the oldest message away from everybody."""
        message = self._messages.popleft()
        self._weigh(-len(message.payload))
        for group in self.groups.values():
            if group.next <= message.number:
                group.next = message.number + 1
                group.skipped += 1
            elif group.leased.pop(message.number, None) is None and (
                group.attempts.pop(message.number, None) is not None
            ):
                group.returned.remove(message.number)
                group.returned.sort()
                group.skipped += 1

    def clear(self) -> int:
        """Drop all messages, void all leases; returns how many messages went."""
        dropped = len(self._messages)
        self._messages.clear()
        self._weigh(-self.bytes)
        for group in self.groups.values():
            group.next = self._end
            group.leased.clear()
            group.returned.clear()
            group.attempts.clear()
        return dropped

    def group(self, name: str, now_us: int) -> RingGroup:
        """A group; one that is new begins at the oldest message held."""
        group = self.groups.get(name)
        if group is None:
            group = self.groups[name] = RingGroup(self.first, now_us)
        group.used_us = now_us
        return group

    def take(
        self, name: str, count: int, options: RingOptions, now_us: int, is_final: bool
    ) -> list[Delivered]:
        """Deliver up to so many messages, those that came back first.

        Args:
            name: The group.
            count: At most so many.
            options: The queue's.
            now_us: Now.
            is_final: Settle at delivery, without a lease.
        """
        group = self.group(name, now_us)
        self.expire(group, options, now_us)
        taken: list[Delivered] = []
        while len(taken) < count and (group.returned or group.next < self._end):
            if group.returned:
                number = heappop(group.returned)
                attempts = group.attempts.pop(number)
            else:
                number, attempts = group.next, 0
                group.next += 1
            payload = self._messages[number - self.first].payload
            taken.append(Delivered(self.name, number, payload, attempts))
            if not is_final:
                group.leased[number] = (now_us + options.lease_s * 1_000_000, attempts)
        if is_final:
            self.let_go()
        return taken

    def settle(
        self, name: str, number: int, completes: bool, options: RingOptions, now_us: int
    ) -> Outcome:
        """Settle one message that is out."""
        group = self.groups.get(name)
        if group is None:
            return "unknown"
        self.expire(group, options, now_us)
        lease = group.leased.pop(number, None)
        if lease is None:
            return "unknown"
        if not completes and self._give_back(group, number, lease[1], options):
            return "redelivered"
        self.let_go()
        return "acked"

    def expire(self, group: RingGroup, options: RingOptions, now_us: int) -> None:
        """Take back what has been out for too long. Cost: what is out."""
        late = [number for number, (until_us, _) in group.leased.items() if until_us <= now_us]
        for number in late:
            _, attempts = group.leased.pop(number)
            self._give_back(group, number, attempts, options)
        if late:
            self.let_go()

    def let_go(self) -> None:
        """Drop what every group has settled. Cost: the groups, and what goes."""
        if not self.groups:
            return
        low = min([group.low() for group in self.groups.values()])
        while self._messages and self._messages[0].number < low:
            self._weigh(-len(self._messages.popleft().payload))

    def pending(self, name: str | None) -> int:
        """Messages that a group has not settled; of the slowest group when None is named."""
        groups = list(self.groups.values()) if name is None else [self.groups.get(name)]
        counts = [
            len(self)
            if group is None
            else self._end - group.next + len(group.returned) + len(group.leased)
            for group in groups
        ]
        return max(counts, default=len(self))

    def next_due_us(self, name: str) -> int | None:
        """When the first lease of a group runs out."""
        group = self.groups.get(name)
        if group is None:
            return None
        return min([until_us for until_us, _ in group.leased.values()], default=None)

    def _weigh(self, added: int) -> None:
        self.bytes += added
        self._tally.bytes += added

    def _give_back(
        self, group: RingGroup, number: int, attempts: int, options: RingOptions
    ) -> bool:
        """Have a message delivered again; False when it has been often enough."""
        if attempts >= options.retry_limit:
            self.dropped_by_retry += 1
            return False
        group.attempts[number] = attempts + 1
        heappush(group.returned, number)
        return True
