"""Partitions: links between nodes that carry nothing, for a while."""

from __future__ import annotations

import random
from typing import Annotated, Final, Literal

import msgspec
import trio
from msgspec import Meta

from ..histories.ops import Json
from .acts import Evidence, Stage
from .fault import Fault
from .grudges import bridge, halves, isolate, one_way, ring, third, towards
from .links import LinkRule, Pair
from .net_acts import LinkAct, Rules
from .options import options_of
from .proxy.messages import ANSWERS
from .settings import NemesisSettings

_STALE_S: Final = 1.0

Seconds = Annotated[float, Meta(ge=0, le=3600)]


class CutOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a partition can be told.

    Attributes:
        reset_after_s: Connections that were cut for so long are reset at the end; 0 lets what
            waited arrive late, as TCP does.
    """

    reset_after_s: Seconds = 0.0


class OneWayOptions(CutOptions, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Also which way is cut.

    Attributes:
        cut: `in`: the targets hear nobody else; `out`: nobody else hears them.
    """

    cut: Literal["in", "out"] = "in"


class FlapOptions(CutOptions, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Also how fast it flaps.

    Attributes:
        period_s: From one cut to the next; half of it is cut.
    """

    period_s: Annotated[float, Meta(ge=0.05, le=600)] = 0.6


def draw_cut(stream: random.Random, settings: NemesisSettings) -> dict[str, Json]:
    """Let half of the cuts deliver late what waited, and half reset."""
    del settings
    return {"reset_after_s": _STALE_S} if stream.randrange(2) else {}


def draw_one_way(stream: random.Random, settings: NemesisSettings) -> dict[str, Json]:
    """Draw the way as well."""
    return {"cut": stream.choice(("in", "out"))} | draw_cut(stream, settings)


def draw_flap(stream: random.Random, settings: NemesisSettings) -> dict[str, Json]:
    """Draw a period about which elections may or may not end."""
    del settings
    return {"period_s": stream.choice((0.2, 0.6, 1.2))}


class Partition(LinkAct):
    """partition-one, -leader, -majority, -halves, -third, -ring, -bridge: by their kind."""

    def make_rules(self) -> Rules:
        """See `LinkAct`."""
        options = self._options()
        rule = LinkRule(drop=True, reset_after_s=options.reset_after_s)
        return dict.fromkeys(self._cut(), rule)

    def _options(self) -> CutOptions:
        return options_of(self.fault, CutOptions)

    def _cut(self) -> frozenset[Pair]:
        nodes, choice = self.nodes, self.fault.choice
        if self.fault.kind == "partition-halves":
            return halves(nodes, choice)
        if self.fault.kind == "partition-third":
            return third(nodes, choice)
        if self.fault.kind == "partition-ring":
            return ring(nodes, choice)
        if self.fault.kind == "partition-bridge":
            return bridge(nodes, choice)
        return isolate(nodes, self.chosen)


class PartitionOneWay(Partition):
    """partition-one-way."""

    def _options(self) -> OneWayOptions:
        return options_of(self.fault, OneWayOptions)

    def _cut(self) -> frozenset[Pair]:
        return one_way(self.nodes, self.chosen, hears=self._options().cut == "out")


class LeaderDeaf(LinkAct):
    """leader-deaf: the leader's appends arrive, and it hears nothing at all."""

    def make_rules(self) -> Rules:
        """See `LinkAct`."""
        return dict.fromkeys(towards(self.nodes, self.chosen[0]), self._rule())

    def _rule(self) -> LinkRule:
        options = options_of(self.fault, CutOptions)
        return LinkRule(drop=True, reset_after_s=options.reset_after_s, spares_acks=True)


class LeaderDeafToAnswers(LeaderDeaf):
    """leader-deaf-answers: of all that the leader hears, only answers to its appends are lost."""

    def _rule(self) -> LinkRule:
        return LinkRule(drop=True, only=ANSWERS)


class Flapping(LinkAct):
    """flapping: the targets are cut off and joined again, over and over."""

    def __init__(self, fault: Fault, stage: Stage) -> None:
        super().__init__(fault, stage)
        self._cuts = 0

    def make_rules(self) -> Rules:
        """See `LinkAct`."""
        options = options_of(self.fault, FlapOptions)
        rule = LinkRule(drop=True, reset_after_s=options.reset_after_s)
        return dict.fromkeys(isolate(self.nodes, self.chosen), rule)

    def names(self) -> tuple[str, ...]:
        """See `LinkAct`: each cut has its own."""
        more = (f"{self.fault.id}.{number}" for number in range(1, self._cuts + 1))
        return (self.fault.id, *more)

    async def hold(self) -> None:
        """See `Act`."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._flap)
            await super().hold()
            nursery.cancel_scope.cancel()

    async def _flap(self) -> None:
        half_s = options_of(self.fault, FlapOptions).period_s / 2
        while True:
            await trio.sleep(half_s)
            await self.links.end(self.names()[-1])
            await trio.sleep(half_s)
            self._cuts += 1
            await self.begin(self.names()[-1], self.rules)

    async def heal(self) -> Evidence:
        """See `Act`."""
        return await super().heal() | {"cuts": 1 + self._cuts}
