"""Replicas in virtual time: a key/value store with lifetimes, links that fail, clocks that differ.

Each replica polls: it sends a heartbeat, waits for its outcome, then runs its share of a constant
target. What it runs goes on while its master is frozen or cut off, and ends when it crashes.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from atleastonce.system.supervisor.core.coordination import View, share
from atleastonce.system.supervisor.core.membership import Membership, key_ttl_s

US: Final = 1_000_000
TTL_US: Final = 15 * US
POLL_US: Final = 3 * US
CALL_US: Final = 2 * US
DELAY_US_MAX: Final = 50_000
SLEW: Final = 200
"""A broker with a wrong time of day runs fast or slow by at most one part in this."""

MembershipMaker = Callable[[str, int], Membership]


class Store:
    """The broker: keys with lifetimes on a clock of its own, which never jumps."""

    def __init__(self) -> None:
        self.expiry_us: dict[str, int] = {}
        self.wall_error_us = 0
        self._time_us = 0
        self._seen_us = 0

    def now_us(self, true_us: int) -> int:
        """The broker's time; it moves towards the host's time of day a little at a time."""
        passed_us, self._seen_us = true_us - self._seen_us, true_us
        step_us = max(-(passed_us // SLEW), min(passed_us // SLEW, self.wall_error_us))
        self.wall_error_us -= step_us
        self._time_us += passed_us + step_us
        return self._time_us

    def beat(self, own: str, true_us: int) -> list[str]:
        now_us = self.now_us(true_us)
        self.expiry_us[own] = now_us + key_ttl_s(TTL_US) * US
        return sorted(name for name, until_us in self.expiry_us.items() if until_us > now_us)

    def leave(self, own: str) -> None:
        self.expiry_us.pop(own, None)


@dataclass
class Replica:
    """One master: its clock, its link, and the workers that it runs."""

    name: str
    membership: Membership
    clock_offset_us: int
    clock_ppm: int
    workers: int | None = None
    is_linked: bool = True
    frozen_until_us: int = 0
    is_gone: bool = False
    is_asking: bool = False
    is_leaving: bool = False
    view: View | None = None

    def now_us(self, true_us: int) -> int:
        return self.clock_offset_us + true_us + true_us * self.clock_ppm // US


@dataclass
class World:
    """The simulation; `sums` is every change of the total that runs."""

    seed: int
    target: int
    maker: MembershipMaker = Membership
    now_us: int = 0
    store: Store = field(default_factory=Store)
    replicas: list[Replica] = field(default_factory=list)
    departures_us: list[int] = field(default_factory=list)
    sums: list[tuple[int, int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)
        self._events: list[tuple[int, int, Callable[[], None]]] = []
        self._numbers = 0

    def at(self, delay_us: int, act: Callable[[], None]) -> None:
        self._numbers += 1
        heapq.heappush(self._events, (self.now_us + delay_us, self._numbers, act))

    def run_until(self, until_us: int) -> None:
        while self._events and self._events[0][0] <= until_us:
            self.now_us, _, act = heapq.heappop(self._events)
            act()
        self.now_us = until_us

    def living(self) -> list[Replica]:
        return [replica for replica in self.replicas if not replica.is_gone]

    def total(self) -> int:
        return sum(replica.workers or 0 for replica in self.living())

    def join(self) -> None:
        name = f"{self.random.getrandbits(64):016x}"
        offset_us = self.random.randrange(10**6 * US)
        ppm = self.random.randint(-500, 500)
        replica = Replica(name, self.maker(name, TTL_US), offset_us, ppm)
        self.replicas.append(replica)
        self.at(self.random.randrange(POLL_US), lambda: self._poll(replica))

    def crash(self, replica: Replica) -> None:
        self._depart(replica)

    def leave(self, replica: Replica) -> None:
        """Leave once the heartbeat that is out has its outcome."""
        replica.is_leaving = True
        if replica.is_asking:
            return
        if replica.is_linked:
            self.store.leave(replica.name)
        self._depart(replica)

    def freeze(self, replica: Replica, seconds: int) -> None:
        replica.frozen_until_us = self.now_us + seconds * US

    def cut(self, replica: Replica) -> None:
        replica.is_linked = False

    def link(self, replica: Replica) -> None:
        replica.is_linked = True

    def jump_wall(self) -> None:
        """Set a broker host's time of day wrong by up to an hour; masters do not look at theirs."""
        self.store.now_us(self.now_us)
        self.store.wall_error_us = self.random.randint(-3600, 3600) * US

    def heal(self) -> None:
        for replica in self.living():
            replica.is_linked = True
            replica.frozen_until_us = 0

    def _depart(self, replica: Replica) -> None:
        replica.is_gone = True
        self.departures_us.append(self.now_us)
        self._note()

    def _note(self) -> None:
        if all(replica.workers is not None for replica in self.living()):
            self.sums.append((self.now_us, self.total()))

    def _poll(self, replica: Replica) -> None:
        if replica.is_gone:
            return
        if self.now_us < replica.frozen_until_us:
            self.at(POLL_US // 4, lambda: self._poll(replica))
            return
        replica.is_asking = True
        sent_us = replica.now_us(self.now_us)
        if replica.is_linked:
            self.at(self._delay_us(), lambda: self._arrive(replica, sent_us))
        else:
            self.at(CALL_US, lambda: self._settle(replica, sent_us, None))

    def _arrive(self, replica: Replica, sent_us: int) -> None:
        listed = self.store.beat(replica.name, self.now_us)
        delay_us = self._delay_us() if replica.is_linked else CALL_US
        answer = listed if replica.is_linked else None
        self.at(delay_us, lambda: self._settle(replica, sent_us, answer))

    def _settle(self, replica: Replica, sent_us: int, listed: list[str] | None) -> None:
        if replica.is_gone:
            return
        if self.now_us < replica.frozen_until_us:
            self.at(POLL_US // 4, lambda: self._settle(replica, sent_us, listed))
            return
        replica.is_asking = False
        if replica.is_leaving:
            self.leave(replica)
            return
        if listed is None:
            replica.membership.unheard()
        else:
            replica.membership.heard(sent_us, listed)
        replica.view = replica.membership.view(replica.now_us(self.now_us))
        if replica.view is not None:
            replica.workers = share(self.target, 0, replica.view)
            self._note()
        self.at(POLL_US + self._delay_us(), lambda: self._poll(replica))

    def _delay_us(self) -> int:
        return self.random.randint(100, DELAY_US_MAX)
