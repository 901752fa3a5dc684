"""The proxy: all ways of a run, and the orders that faults give."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import trio

from ..links import LinkCounts, Pair
from .connection import Connection, How
from .control import Answer, Order, PairCounts, PairRule, Plan, Way
from .link_state import LinkState, trouble_of
from .listener import Listener
from .tap import Tap


class Proxy:
    """Listens on every way of a plan.

    Args:
        plan: The ways.
        tap: Makes what hears of a connection; None if nobody listens.

    Raises:
        OSError: An address cannot be had.
    """

    def __init__(self, plan: Plan, tap: Callable[[Way, int], Tap] | None = None) -> None:
        chance = Random(plan.seed)
        self._links: dict[Pair, LinkState] = {}
        for way in plan.ways:
            for pair in ((way.source, way.target), (way.target, way.source)):
                self._links.setdefault(pair, LinkState(pair, chance))
        self._listeners = [
            Listener(
                way,
                self._links[way.source, way.target],
                self._links[way.target, way.source],
            )
            for way in plan.ways
        ]
        self._tap = tap
        self._connections: set[Connection] = set()
        self._over: dict[str, list[PairCounts]] = {}

    async def run(self) -> None:
        """Carry whatever comes, until cancelled; then nobody listens any more."""
        try:
            async with trio.open_nursery() as nursery:
                for listener in self._listeners:
                    nursery.start_soon(self._serve, listener, nursery)
        finally:
            for listener in self._listeners:
                listener.close()

    async def _serve(self, listener: Listener, nursery: trio.Nursery) -> None:
        way = listener.way
        there = self._links[way.source, way.target]
        back = self._links[way.target, way.source]
        async for stream in listener.connections():
            nursery.start_soon(self._carry, Connection(way, stream, there, back, self._tap))

    async def _carry(self, connection: Connection) -> None:
        self._connections.add(connection)
        try:
            await connection.run()
        finally:
            self._connections.discard(connection)

    def obey(self, order: Order) -> Answer:
        """Carry out an order; what it asks for is in force when this returns."""
        if order.op == "begin":
            return self._begin(order.fault, order.rules)
        if order.op == "end":
            self._end(order.fault)
        return Answer(self._counts(order.fault))

    def _begin(self, fault: str, rules: list[PairRule]) -> Answer:
        for each in rules:
            trouble = trouble_of(each.rule)
            if (each.source, each.target) not in self._links:
                trouble = f"there is no link from {each.source} to {each.target}"
            if trouble:
                return Answer(error=trouble)
        if any(fault in link.counts for link in self._links.values()):
            return Answer(error=f"fault {fault} has begun already")
        for each in rules:
            self._links[each.source, each.target].begin(fault, each.rule)
        for listener in self._listeners:
            listener.settle()
        for each in rules:
            self._strike(fault, each)
        return Answer()

    def _strike(self, fault: str, each: PairRule) -> None:
        """Do what a rule does to the connections that there are."""
        rule, struck = each.rule, 0
        if not rule.reset and not rule.half_open:
            return
        for connection in list(self._connections):
            if not connection.is_between(each.source, each.target) or not connection.is_made:
                continue
            if rule.reset == "both":
                connection.abort()
            else:
                how: How = "one" if rule.reset == "one" else "half_open"
                connection.close_end(each.target, fault, how)
            struck += 1
        self._links[each.source, each.target].note_resets(struck, fault)

    def _end(self, fault: str) -> None:
        stale = [pair for pair, link in self._links.items() if link.end(fault)]
        for listener in self._listeners:
            listener.settle()
        for connection in list(self._connections):
            connection.let_go(fault)
            for pair in stale:
                if connection.is_between(*pair) and connection.is_made:
                    connection.abort()
                    self._links[pair].note_resets(1, fault)
                    break

    def _counts(self, fault: str) -> list[PairCounts]:
        return [
            PairCounts(*pair, _copy(link.counts[fault]))
            for pair, link in self._links.items()
            if fault in link.counts
        ]


def _copy(counts: LinkCounts) -> LinkCounts:
    return LinkCounts(**{name: getattr(counts, name) for name in LinkCounts.__struct_fields__})
