"""Directed links between the ends of a run, and what faults make of them.

Ends are the nodes by name, `clients` (the verifier and its producers) and `workers`. How a rule is
put into force is the level's affair: proxies at level 0, filters and a packet switch at level 1.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import reduce
from typing import Annotated, Literal, Protocol

import msgspec
from msgspec import Meta

Pair = tuple[str, str]
"""A directed link: from end to end."""

Share = Annotated[float, Meta(ge=0, le=1)]
Amount = Annotated[float, Meta(ge=0)]


class LinkRule(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What becomes of what goes over one directed link.

    Attributes:
        drop: Nothing arrives.
        delay_ms: All of it is late by this.
        jitter_ms: Give or take up to this, the order kept.
        loss: Share of packets that are lost.
        duplicate: Share that arrive twice.
        reorder: Share that later ones overtake.
        corrupt: Share that arrive changed, under a checksum that is right.
        rate_bytes_s: So much arrives in a second; 0 is no bound.
        reset: Connections are reset when the rule comes into force, at both ends or only at the
            end that the link leads to.
        refuse: New connections are refused.
        half_open: Connections are closed at the end that the link leads to; the other end is not
            told.
        only: The kind of message that the rule is for; empty for all.
        reset_after_s: Connections that were cut for so long are reset when the cut ends, and what
            waited is not delivered; 0 leaves that to TCP, which delivers it.
        spares_acks: What is dropped is what carries something; mere acknowledgements of TCP pass,
            so that the other direction goes on. A proxy never drops them.
    """

    drop: bool = False
    delay_ms: Amount = 0.0
    jitter_ms: Amount = 0.0
    loss: Share = 0.0
    duplicate: Share = 0.0
    reorder: Share = 0.0
    corrupt: Share = 0.0
    rate_bytes_s: Amount = 0.0
    reset: Literal["", "both", "one"] = ""
    refuse: bool = False
    half_open: bool = False
    only: str = ""
    reset_after_s: Amount = 0.0
    spares_acks: bool = False


class LinkCounts(msgspec.Struct, kw_only=True):
    """What a fault has done on one link so far: packets at level 1, messages at level 0."""

    passed: int = 0
    dropped: int = 0
    delayed: int = 0
    duplicated: int = 0
    reordered: int = 0
    corrupted: int = 0
    resets: int = 0
    refused: int = 0
    bytes: int = 0


class LinkError(Exception):
    """A rule cannot be put into force here; the message is one line."""


class Links(Protocol):
    """The links of a run."""

    @property
    def powers(self) -> frozenset[str]:
        """Which powers of `levels` it has."""

    async def begin(self, fault: str, rules: Mapping[Pair, LinkRule]) -> None:
        """Put a fault's rules into force, all at once; they are when this returns.

        Several faults on one link add up, and the stricter rule wins.

        Raises:
            LinkError: They cannot be.
        """

    async def end(self, fault: str) -> None:
        """Take a fault's rules back; nothing happens if there are none."""

    async def counts(self, fault: str) -> Mapping[Pair, LinkCounts]:
        """Say what the fault has done so far; after its end, what it did."""


def combine(rules: Iterable[LinkRule]) -> LinkRule:
    """Add up the rules of several faults on one link: of each thing the stricter one.

    Their `only` must be the same.
    """
    return reduce(_stricter, rules, LinkRule())


def _stricter(one: LinkRule, other: LinkRule) -> LinkRule:
    rates = [rate for rate in (one.rate_bytes_s, other.rate_bytes_s) if rate]
    cuts = [rule for rule in (one, other) if rule.drop]
    limits = [limit for limit in (one.reset_after_s, other.reset_after_s) if limit]
    return LinkRule(
        drop=one.drop or other.drop,
        delay_ms=max(one.delay_ms, other.delay_ms),
        jitter_ms=max(one.jitter_ms, other.jitter_ms),
        loss=max(one.loss, other.loss),
        duplicate=max(one.duplicate, other.duplicate),
        reorder=max(one.reorder, other.reorder),
        corrupt=max(one.corrupt, other.corrupt),
        rate_bytes_s=min(rates, default=0.0),
        reset=one.reset or other.reset,
        refuse=one.refuse or other.refuse,
        half_open=one.half_open or other.half_open,
        only=one.only or other.only,
        reset_after_s=min(limits, default=0.0),
        spares_acks=bool(cuts) and all(rule.spares_acks for rule in cuts),
    )
