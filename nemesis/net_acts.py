"""Acts on links: rules, seen at work and taken back, and bytes that are seen to flow again."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Final

import trio

from ..histories.ops import Json
from .acts import POLL_S, Evidence, NoBiteError, Stage
from .fault import Fault
from .link_counts import add, shown
from .links import LinkCounts, LinkError, LinkRule, Links, Pair
from .node_acts import NodeAct, describe
from .private_network import CLIENTS, WORKERS
from .process import is_alive, is_stopped
from .selectors import pick

_SEEN_WITHIN_S: Final = 2.5

Rules = Mapping[Pair, LinkRule]


class LinkAct(NodeAct):
    """What faults on links have in common.

    Attributes:
        holds: Whether no other fault may hit the same nodes meanwhile.
        proofs: The counts of which one must be above 0.
    """

    holds = True
    proofs: tuple[str, ...] = ("dropped",)

    def __init__(self, fault: Fault, stage: Stage) -> None:
        super().__init__(fault, stage)
        self.rules: Rules = {}

    def make_rules(self) -> Rules:
        """Say what is to become of which links, now that the targets are known."""
        raise AssertionError(f"{self.fault.kind} has no rules")

    @property
    def nodes(self) -> tuple[str, ...]:
        """All nodes."""
        return tuple(self.stage.world.nodes())

    @property
    def chosen(self) -> tuple[str, ...]:
        """The nodes that are hit."""
        return tuple(target.name for target in self.targets)

    def context(self) -> Evidence:
        """See `Act`: role and state of the nodes that are hit, held or not."""
        return {"leader": self.leader, "nodes": describe(self.stage.world, self.chosen)}

    @property
    def pid(self) -> int | None:
        """See `Act`: links are hit, and no process."""
        return None

    async def _claim(self) -> bool:
        """See `NodeAct`; what holds no node takes its targets whoever else holds them."""
        if self.holds:
            return await super()._claim()
        world = self.stage.world
        self.leader = await world.leader()
        if self.leader is None:
            return False
        chosen = pick(self.fault.target, world.nodes(), self.leader, (), self.fault.choice)
        self.targets = tuple(world.node_process(node) for node in chosen)
        return bool(chosen)

    @property
    def links(self) -> Links:
        """The run's links; `NoBiteError` if it has none."""
        links = self.stage.world.links()
        if links is None:
            raise NoBiteError("this run has no links that faults can act on")
        return links

    def names(self) -> tuple[str, ...]:
        """The ids under which this fault's rules are in force."""
        return (self.fault.id,)

    async def begin(self, name: str, rules: Rules) -> None:
        """Put rules into force; `NoBiteError` if they cannot be."""
        try:
            await self.links.begin(name, rules)
        except LinkError as error:
            raise NoBiteError(str(error)) from None

    async def bite(self) -> Evidence:
        """See `Act`."""
        self.rules = self.make_rules()
        begun_s = time.monotonic()
        await self.begin(self.fault.id, self.rules)
        self.bitten_s = time.monotonic()
        onset_ms = round((self.bitten_s - begun_s) * 1000, 3)
        return {"onset_ms": onset_ms, "links": _words(self.rules), **await self.see()}

    async def see(self) -> Evidence:
        """Wait for the proof that the rules are at work; `NoBiteError` if none comes."""
        wait_s = max(_SEEN_WITHIN_S, self.fault.duration_s)
        with trio.move_on_after(wait_s):
            while True:
                total = await self.total()
                if any(getattr(total, proof) for proof in self.proofs):
                    seen_ms = round((time.monotonic() - self.bitten_s) * 1000, 3)
                    return {"seen_ms": seen_ms, "counts": dict(shown(total))}
                await trio.sleep(POLL_S)
        wanted = " or ".join(self.proofs)
        raise NoBiteError(f"nothing was {wanted} on {len(self.rules)} links in {wait_s:g} s")

    async def total(self) -> LinkCounts:
        """Add up what the fault has done."""
        total = LinkCounts()
        for name in self.names():
            for counts in (await self._counts(name)).values():
                total = add(total, counts)
        return total

    async def _counts(self, name: str) -> Mapping[Pair, LinkCounts]:
        try:
            return await self.links.counts(name)
        except LinkError as error:
            raise NoBiteError(str(error)) from None

    async def heal(self) -> Evidence:
        """See `Act`."""
        begun_s = time.monotonic()
        if self.stage.world.links() is None:
            return {}
        for name in self.names():
            await self.links.end(name)
        heal_ms = round((time.monotonic() - begun_s) * 1000, 3)
        told: dict[str, Json] = {}
        for name in self.names():
            for pair, counts in (await self.links.counts(name)).items():
                if any(shown(counts).values()):
                    told[">".join(pair)] = dict(shown(counts))
        return self.seen_meanwhile() | {"heal_ms": heal_ms, "by_link": told}

    async def recover(self) -> Evidence | None:
        """See `Act`: bytes flow again on each link, and the nodes are healthy.

        A node that another fault holds, or that is down, is that one's affair.
        """
        begun_s = time.monotonic()
        flows_ms: dict[str, float] = {}
        reached: list[bool] = []

        async def try_link(source: str, target: str) -> None:
            wait_s = self.stage.settings.recover_wait_s
            took_s = await self.stage.world.reach_s(source, target, wait_s)
            if took_s is not None:
                flows_ms[f"{source}>{target}"] = round(took_s * 1000, 3)
            reached.append(took_s is not None or not self._is_up(target))

        async with trio.open_nursery() as nursery:
            for source, target in sorted({_dialled(pair) for pair in self.rules}):
                if self._is_up(target):
                    nursery.start_soon(try_link, source, target)
        if not all(reached) or not await self._wait_healthy(begun_s):
            return None
        flows: Json = {"worst_ms": max(flows_ms.values(), default=0.0), "links": len(flows_ms)}
        return {"healthy_after_s": round(time.monotonic() - begun_s, 3), "flows": flows}

    async def _wait_healthy(self, begun_s: float) -> bool:
        world, wait_s = self.stage.world, self.stage.settings.recover_wait_s
        for node in self.chosen:
            left_s = max(0.0, begun_s + wait_s - time.monotonic())
            if self._is_others(node):
                continue
            if not await world.wait_node_healthy(node, left_s) and not self._is_others(node):
                return False
        return True

    def _is_others(self, node: str) -> bool:
        """Whether another fault holds a node."""
        return node in self.stage.claims - self.claimed

    def _is_up(self, node: str) -> bool:
        """Whether a node runs and no other fault holds it."""
        target = self.stage.world.node_process(node)
        return not self._is_others(node) and is_alive(target) and not is_stopped(target)


def _dialled(pair: Pair) -> Pair:
    """Turn a link round if nobody dials that way."""
    source, target = pair
    return (target, source) if target in (CLIENTS, WORKERS) else pair


def _words(rules: Rules) -> list[Json]:
    return [">".join(pair) for pair in sorted(rules)]


def both_ways(nodes: tuple[str, ...], others: tuple[str, ...]) -> set[Pair]:
    """Name the links between some nodes and others, both ways."""
    there = {(node, other) for node in nodes for other in others if node != other}
    return there | {(other, node) for node, other in there}
