"""What the wiretap is started with."""

from __future__ import annotations

import msgspec

from ..proxy.control import CapturePlan


class TappedEnd(msgspec.Struct, frozen=True):
    """An end of the network.

    Attributes:
        name: Its name.
        number: Last byte of its address.
        port: Its cable's interface, in the namespace of the wiretap.
    """

    name: str
    number: int
    port: str


class TapPlan(msgspec.Struct, frozen=True):
    """All of it: a file of JSON.

    Attributes:
        ends: Of the network.
        network: First three bytes of the addresses that count.
        parent_pid: Who starts it; it dies with that process.
        capture: Where to.
    """

    ends: list[TappedEnd]
    network: list[int]
    parent_pid: int
    capture: CapturePlan
