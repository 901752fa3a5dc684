"""What the switch is told and what it answers: JSON, one object a packet of a Unix socket."""

from __future__ import annotations

from typing import Literal

import msgspec

from .treatment import PacketCounts, PacketRule


class Port(msgspec.Struct, frozen=True):
    """A port of the switch.

    Attributes:
        name: The interface.
        number: Last byte of the addresses behind it, of Ethernet and of IPv4.
    """

    name: str
    number: int


class Plan(msgspec.Struct, frozen=True):
    """What the switch is started with.

    Attributes:
        ports: All of them.
        network: First three bytes of the IPv4 addresses that rules are about.
        seed: Of all its chances.
    """

    ports: list[Port]
    network: list[int]
    seed: int


class LinkRule(msgspec.Struct, frozen=True):
    """A rule for what goes from one address to another, by their last bytes.

    A link has at most one rule for each `only`.
    """

    source: int
    target: int
    rule: PacketRule


class Order(msgspec.Struct, frozen=True, omit_defaults=True):
    """One request.

    Attributes:
        op: `rules` replaces all rules, at once; a rule that stays the same keeps its counts.
            `counts` asks what the present rules have done.
        rules: For `rules`.
    """

    op: Literal["rules", "counts"]
    rules: list[LinkRule] = []


class LinkCount(msgspec.Struct, frozen=True):
    """What a rule has done."""

    source: int
    target: int
    counts: PacketCounts


class Answer(msgspec.Struct, frozen=True, omit_defaults=True):
    """The answer to an order, given when it has been carried out.

    Attributes:
        counts: Of the present rules; for `rules`, of those that went.
        unsent: Frames that a port did not take.
    """

    counts: list[LinkCount] = []
    unsent: int = 0
