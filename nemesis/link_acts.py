"""Links that are slow, narrow, reset, shut or half open, and users who cannot reach the nodes."""

from __future__ import annotations

import random
from typing import Annotated

import msgspec
from msgspec import Meta

from ..histories.ops import Json
from .links import LinkRule
from .net_acts import LinkAct, Rules, both_ways
from .options import options_of
from .packet_act import Between, links_of
from .partition_acts import CutOptions
from .private_network import CLIENTS, WORKERS
from .settings import NemesisSettings

Milliseconds = Annotated[float, Meta(ge=0, le=60_000)]


class BetweenOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Whose links with the targets: other nodes', the clients', the workers', or all."""

    between: Between = "nodes"


class SlowOptions(BetweenOptions, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Also how slow.

    Attributes:
        delay_ms: Each way.
        jitter_ms: Give or take.
    """

    delay_ms: Milliseconds = 50.0
    jitter_ms: Milliseconds = 20.0


class NarrowOptions(BetweenOptions, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Also how narrow.

    Attributes:
        rate_bytes_s: Each way.
    """

    rate_bytes_s: Annotated[float, Meta(ge=100, le=1e9)] = 50_000.0


class ResetOptions(BetweenOptions, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Also which ends hear of it.

    Attributes:
        one_end: Only the target's end; the other one learns of it when it sends.
    """

    one_end: bool = False


def draw_slow(stream: random.Random, settings: NemesisSettings) -> dict[str, Json]:
    """Draw a delay, up to what elections can bear and no further."""
    del settings
    delay_ms = stream.choice((10, 30, 60, 100))
    return {"delay_ms": delay_ms, "jitter_ms": stream.choice((0, delay_ms // 2))}


def draw_narrow(stream: random.Random, settings: NemesisSettings) -> dict[str, Json]:
    """Draw a rate at which heartbeats get through and a backlog does not."""
    del settings
    return {"rate_bytes_s": stream.choice((20_000, 50_000, 200_000))}


def draw_reset(stream: random.Random, settings: NemesisSettings) -> dict[str, Json]:
    """Draw whose connections, and which ends."""
    del settings
    one_end = bool(stream.randrange(2))
    return {"between": stream.choice(("nodes", "clients", "all")), "one_end": one_end}


def draw_between(stream: random.Random, settings: NemesisSettings) -> dict[str, Json]:
    """Draw whose connections."""
    del settings
    return {"between": stream.choice(("nodes", "clients", "all"))}


class _Beside(LinkAct):
    """Holds no node, so that other faults may hit the same ones meanwhile."""

    holds = False


class SlowLinks(_Beside):
    """slow-links: all that the targets say and hear is late."""

    proofs = ("delayed",)

    def make_rules(self) -> Rules:
        """See `LinkAct`."""
        options = options_of(self.fault, SlowOptions)
        rule = LinkRule(delay_ms=options.delay_ms, jitter_ms=options.jitter_ms)
        return dict.fromkeys(links_of(self.chosen, self.nodes, options.between), rule)


class NarrowLinks(_Beside):
    """narrow-links: the targets' links have little bandwidth."""

    proofs = ("delayed",)

    def make_rules(self) -> Rules:
        """See `LinkAct`."""
        options = options_of(self.fault, NarrowOptions)
        rule = LinkRule(rate_bytes_s=options.rate_bytes_s)
        return dict.fromkeys(links_of(self.chosen, self.nodes, options.between), rule)


class _Towards(_Beside):
    """What befalls the links that lead to the targets."""

    proofs = ("resets",)

    def towards(self, rule: LinkRule, options: BetweenOptions) -> Rules:
        """The rule on each of these links."""
        pairs = links_of(self.chosen, self.nodes, options.between)
        return {pair: rule for pair in pairs if pair[1] in self.chosen}


class ResetConnections(_Towards):
    """reset-connections: connections with the targets are reset at both ends, or at theirs."""

    def make_rules(self) -> Rules:
        """See `LinkAct`."""
        options = options_of(self.fault, ResetOptions)
        return self.towards(LinkRule(reset="one" if options.one_end else "both"), options)


class RefuseConnections(_Towards):
    """refuse-connections: the connections to the targets are reset, and new ones refused."""

    proofs = ("refused",)

    def make_rules(self) -> Rules:
        """See `LinkAct`."""
        rule = LinkRule(reset="both", refuse=True)
        return self.towards(rule, options_of(self.fault, BetweenOptions))


class HalfOpen(_Towards):
    """half-open: the targets close their connections, and the other ends are not told."""

    def make_rules(self) -> Rules:
        """See `LinkAct`."""
        return self.towards(LinkRule(half_open=True), options_of(self.fault, BetweenOptions))


class CutUsers(_Beside):
    """cut-clients, cut-workers: these cannot reach the targets, nor hear of them."""

    def make_rules(self) -> Rules:
        """See `LinkAct`."""
        options = options_of(self.fault, CutOptions)
        end = WORKERS if self.fault.kind == "cut-workers" else CLIENTS
        rule = LinkRule(drop=True, reset_after_s=options.reset_after_s)
        return dict.fromkeys(both_ways(self.chosen, (end,)), rule)
