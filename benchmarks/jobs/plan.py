"""How much is measured."""

from __future__ import annotations

from dataclasses import dataclass

JOB_MS = 10.0
EMPTY_MS = 0.0
PACES = (50.0, 200.0)


@dataclass(frozen=True, slots=True)
class Plan:
    """Sizes of one run; the same for every contender.

    Attributes:
        pools: Numbers of workers; the paced loads meet the first.
        drained: Jobs of a backlog, for each pool.
        included: Jobs sent by one producer to a running pool, for each pool.
        paced_s: How long each paced load lasts.
    """

    pools: tuple[int, ...]
    drained: tuple[int, ...]
    included: tuple[int, ...]
    paced_s: float


FULL = Plan(pools=(8, 32), drained=(6_000, 16_000), included=(3_000, 6_000), paced_s=20.0)
QUICK = Plan(pools=(2, 4), drained=(200, 200), included=(50, 50), paced_s=1.0)


@dataclass(frozen=True, slots=True)
class OwnSettings:
    """What our workers are set to; the ablation changes some of it."""

    renewal: bool = True
    ack_async: bool = False
    pop_ahead: bool = True
    ack_batch: int = 16
    prefetch: int | str = "auto"


ABLATIONS = {
    "all on": OwnSettings(),
    "no lease renewal": OwnSettings(renewal=False),
    "ack_async, one by one": OwnSettings(ack_async=True, ack_batch=1),
    "acks one by one": OwnSettings(ack_batch=1),
    "no pop_ahead": OwnSettings(pop_ahead=False),
    "none of the three": OwnSettings(renewal=False, ack_batch=1, pop_ahead=False),
}
