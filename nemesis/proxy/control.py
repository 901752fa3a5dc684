"""What the proxy is started with, told and asked: JSON lines over a Unix socket."""

from __future__ import annotations

from typing import Final, Literal

import msgspec

from ..links import LinkCounts, LinkRule

LINE_BYTES_MAX: Final = 1 << 20
"""Of one order or answer; a longer one ends the connection."""

Service = Literal["peer", "client"]


class Way(msgspec.Struct, frozen=True):
    """A way from one end to another: who dials here is taken there.

    Attributes:
        source: The end that dials.
        target: The end that serves.
        service: What it serves: the peer protocol or HTTP.
        listen: Where the proxy listens, as host and port.
        dial: Where the target does.
    """

    source: str
    target: str
    service: Service
    listen: tuple[str, int]
    dial: tuple[str, int]


class CapturePlan(msgspec.Struct, frozen=True):
    """Where captured traffic goes.

    Attributes:
        folder: Made if it is missing.
        segment_bytes: When the next file is begun.
        segments: So many files are kept, the newest.
    """

    folder: str
    segment_bytes: int
    segments: int


class Plan(msgspec.Struct, frozen=True):
    """What the proxy is started with: a file of JSON.

    Attributes:
        ways: All of them.
        control: Path of the Unix socket on which it takes orders.
        seed: Of its jitter.
        capture: None if nothing is captured.
        parent_pid: Who starts it; without that process it ends.
        die_with_parent: Whether it dies when that process does.
    """

    ways: list[Way]
    control: str
    seed: int
    parent_pid: int
    die_with_parent: bool = True
    capture: CapturePlan | None = None


class PairRule(msgspec.Struct, frozen=True):
    """A rule for one directed link."""

    source: str
    target: str
    rule: LinkRule


class PairCounts(msgspec.Struct, frozen=True):
    """What a fault has done on one directed link."""

    source: str
    target: str
    counts: LinkCounts


class Order(msgspec.Struct, frozen=True, omit_defaults=True):
    """One request.

    Attributes:
        op: `begin` puts the rules of a fault into force, `end` takes them back, `counts` asks what
            the fault has done, `sync` has everything captured so far written out.
        fault: Its id.
        rules: For `begin`.
    """

    op: Literal["begin", "end", "counts", "sync"]
    fault: str = ""
    rules: list[PairRule] = []


class Answer(msgspec.Struct, frozen=True, omit_defaults=True):
    """The answer, given when the order has been carried out.

    Attributes:
        counts: Of the fault.
        error: Why the order was not carried out, in one line; empty if it was.
    """

    counts: list[PairCounts] = []
    error: str = ""
