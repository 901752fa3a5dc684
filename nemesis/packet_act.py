"""Faults on the packets between nodes, or between nodes and those who use them."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Annotated, Final, Literal

import msgspec
import trio
from msgspec import Meta

from ..histories.ops import Json
from .acts import POLL_S, Evidence, NoBiteError, Stage
from .fault import Fault
from .link_counts import add, shown
from .links import LinkCounts, LinkError, LinkRule, Links, Pair
from .node_acts import NodeAct
from .options import options_of
from .selectors import pick

CLIENTS: Final = "clients"
WORKERS: Final = "workers"
_SEEN_WITHIN_S: Final = 2.0

Between = Literal["nodes", "clients", "workers", "all"]


class PacketOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a fault on packets can be told.

    Attributes:
        share: Of the packets that it befalls.
        between: Whose links with the targets: other nodes', the clients', the workers', or all.
    """

    share: Annotated[float, Meta(gt=0, le=1)] = 0.1
    between: Between = "nodes"


def links_of(targets: tuple[str, ...], nodes: tuple[str, ...], between: Between) -> set[Pair]:
    """Name the links of some nodes, both ways."""
    others = set(nodes) if between in ("nodes", "all") else set()
    others |= {end for end in (CLIENTS, WORKERS) if between in (end, "all")}
    there = {(node, other) for node in targets for other in others if other != node}
    return there | {(other, node) for node, other in there}


class PacketAct(NodeAct):
    """packet-loss and its like: a rule on every link of the targets, seen at work, taken back.

    It holds no node, so that other faults may hit the same ones meanwhile.
    """

    field: str
    """Of `LinkRule`: which share the fault sets."""
    count: str
    """Of `LinkCounts`: what proves that it bit."""

    def __init__(self, fault: Fault, stage: Stage) -> None:
        super().__init__(fault, stage)
        self.options = options_of(fault, PacketOptions)
        self.pairs: set[Pair] = set()

    async def _claim(self) -> bool:
        """Find the targets, whoever else holds them."""
        world = self.stage.world
        self.leader = await world.leader()
        if self.leader is None:
            return False
        chosen = pick(self.fault.target, world.nodes(), self.leader, (), self.fault.choice)
        self.targets = tuple(world.node_process(node) for node in chosen)
        self.pairs = links_of(chosen, tuple(world.nodes()), self.options.between)
        return bool(chosen)

    @property
    def pid(self) -> int | None:
        """Not a process but links are hit."""
        return None

    def context(self) -> Evidence:
        """See `Act`."""
        return super().context() | {"between": self.options.between, "share": self.options.share}

    def _links(self) -> Links:
        links = self.stage.world.links()
        if links is None:
            raise NoBiteError("this run has no links that faults can act on")
        return links

    async def bite(self) -> Evidence:
        """See `Act`."""
        links = self._links()
        rule = msgspec.structs.replace(LinkRule(), **{self.field: self.options.share})
        begun_s = time.monotonic()
        try:
            await links.begin(self.fault.id, dict.fromkeys(self.pairs, rule))
        except LinkError as error:
            raise NoBiteError(str(error)) from None
        self.bitten_s = time.monotonic()
        onset_ms = round((self.bitten_s - begun_s) * 1000, 3)
        with trio.move_on_after(max(_SEEN_WITHIN_S, self.fault.duration_s)):
            while not (seen := getattr(await self._total(links), self.count)):
                await trio.sleep(POLL_S)
            return {"onset_ms": onset_ms, self.count: seen, "links": len(self.pairs)}
        raise NoBiteError(f"no packet was {self.count} on {len(self.pairs)} links")

    async def _total(self, links: Links) -> LinkCounts:
        total = LinkCounts()
        for counts in (await links.counts(self.fault.id)).values():
            total = add(total, counts)
        return total

    async def heal(self) -> Evidence:
        """See `Act`."""
        links = self._links()
        begun_s = time.monotonic()
        await links.end(self.fault.id)
        heal_ms = round((time.monotonic() - begun_s) * 1000, 3)
        told = _by_link(await links.counts(self.fault.id))
        return self.seen_meanwhile() | {"heal_ms": heal_ms, "by_link": told}

    async def recover(self) -> Evidence | None:
        """See `Act`; a node that another fault holds down is that one's affair."""
        begun_s, wait_s = time.monotonic(), self.stage.settings.recover_wait_s
        world = self.stage.world
        for target in self.targets:
            left_s = max(0.0, begun_s + wait_s - time.monotonic())
            if target.name in self.stage.claims:
                continue
            if not await world.wait_node_healthy(target.name, left_s) and (
                target.name not in self.stage.claims
            ):
                return None
        return {"healthy_after_s": round(time.monotonic() - begun_s, 3)}


class LosePackets(PacketAct):
    """packet-loss."""

    field = "loss"
    count = "dropped"


class RepeatPackets(PacketAct):
    """packet-duplication."""

    field = "duplicate"
    count = "duplicated"


class ReorderPackets(PacketAct):
    """packet-reorder."""

    field = "reorder"
    count = "reordered"


class CorruptPackets(PacketAct):
    """packet-corruption: what arrives has changed, and its TCP checksum is right."""

    field = "corrupt"
    count = "corrupted"


def _by_link(counts: Mapping[Pair, LinkCounts]) -> dict[str, Json]:
    return {f"{source}>{target}": dict(shown(each)) for (source, target), each in counts.items()}
