"""The workload `jobs`: which jobs a seed asks for, when, and through which node.

A pure generator. Each producer has its own random stream, so that another producer's count or a
fault never reshuffles it, and draws its kinds from a shuffled deck, so that even a short run holds
every kind in its share.

Capacity. With the default shares one dispatch costs a worker 0.12 s on average over all its
attempts (short 0.085 s, long 1.8 s, the two attempts of a flaky or bad job 0.05 s, delayed 0.04 s,
the two attempts of an overrun 4 s). At 20 dispatches a second that is 2.4 busy workers of 4:
60 percent, which leaves room to work off what a fault held up.
"""

from __future__ import annotations

import math
import random
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from ..histories.ops import Json

QUEUE: Final = "jobs"
JOB_NAME: Final = "work"
DECK_SIZE: Final = 200
BACKOFF_S: Final = (1,)
OVERRUN_TIMEOUT_S: Final = 2


class JobKind(StrEnum):
    """What a job's body does."""

    SHORT = "short"
    LONG = "long"
    FLAKY = "flaky"
    BAD = "bad"
    DELAYED = "delayed"
    OVERRUN = "overrun"


SENTENCES: Final[Mapping[JobKind, str]] = {
    JobKind.SHORT: "works 10 to 300 ms and completes",
    JobKind.LONG: "works 1 to 3 s and completes",
    JobKind.FLAKY: "throws on its first attempt and completes on its second",
    JobKind.BAD: "throws on each of its two tries",
    JobKind.DELAYED: "is due 1 to 5 s after its dispatch, then works 10 to 100 ms",
    JobKind.OVERRUN: f"sleeps past its timeout of {OVERRUN_TIMEOUT_S} s on each of its two tries",
}

WORK_MS: Final[Mapping[JobKind, tuple[int, int]]] = {
    JobKind.SHORT: (10, 300),
    JobKind.LONG: (1000, 3000),
    JobKind.FLAKY: (10, 60),
    JobKind.BAD: (10, 60),
    JobKind.DELAYED: (10, 100),
    JobKind.OVERRUN: (OVERRUN_TIMEOUT_S * 1000 + 30_000, OVERRUN_TIMEOUT_S * 1000 + 30_001),
}
_TRIES: Final[Mapping[JobKind, int]] = {JobKind.BAD: 2, JobKind.OVERRUN: 2}
DELAY_MS: Final = (1000, 5000)


@dataclass(frozen=True, slots=True)
class Mix:
    """What is asked for.

    Attributes:
        shares: Fraction of dispatches by kind; what they leave over is short.
        resend: Fraction of dispatches that are sent a second time with the same ids.
        resend_after_s_max: Latest moment of the second sending, after the first.
        timeout_s: Longest run of one attempt, except for overruns.
        tries: Attempts of a job, except for bad jobs and overruns, which have two.
        work_ms: Shortest and longest work of each kind's body.
        delay_ms: Shortest and longest delay of a delayed job.
    """

    shares: Mapping[JobKind, float]
    resend: float = 0.1
    resend_after_s_max: float = 5.0
    timeout_s: int = 5
    tries: int = 3
    work_ms: Mapping[JobKind, tuple[int, int]] = field(default_factory=lambda: WORK_MS)
    delay_ms: tuple[int, int] = DELAY_MS


@dataclass(frozen=True, slots=True)
class Arrival:
    """One job that a producer is to dispatch.

    Attributes:
        at_s: When, after the load began.
        job: Its id, a UUID drawn from the seed.
        kind: What its body does.
        work_ms: How long its body works.
        tries: Attempts before it is given up.
        backoff_s: Pauses between attempts; the last one repeats.
        timeout_s: Longest run of one attempt.
        delay_s: Due so long after its dispatch; 0 for at once.
        via: Which node takes the dispatch, as an index into the nodes.
        resend_after_s: Sent again so long after the first sending; None for once.
        resend_via: Which node takes the second sending.
    """

    at_s: float
    job: str
    kind: JobKind
    work_ms: int
    tries: int
    backoff_s: tuple[int, ...]
    timeout_s: int
    delay_s: float
    via: int
    resend_after_s: float | None
    resend_via: int

    def payload(self) -> dict[str, Json]:
        """The job's own data, as its body will read it."""
        return {"kind": self.kind.value, "work_ms": self.work_ms, "mark": self.job[:8]}


def mean_service_s(mix: Mix) -> float:
    """Return a worker's mean seconds for one dispatch, over all its attempts."""
    costs = {kind: _log_uniform_mean(*span) / 1000 for kind, span in mix.work_ms.items()}
    costs[JobKind.FLAKY] *= 2
    costs[JobKind.BAD] *= 2
    costs[JobKind.OVERRUN] = 2.0 * OVERRUN_TIMEOUT_S
    named = {kind: share for kind, share in mix.shares.items() if kind is not JobKind.SHORT}
    short = 1 - sum(named.values())
    return short * costs[JobKind.SHORT] + sum(costs[kind] * share for kind, share in named.items())


def arrivals(
    mix: Mix, seed: int, producer: int, rate: float, time_limit_s: float, nodes: int
) -> Iterator[Arrival]:
    """Yield one producer's jobs in time order.

    Args:
        mix: Kinds and shares.
        seed: The run's seed.
        producer: Which producer; each has its own stream.
        rate: Dispatches a second of this producer, above 0; gaps are uniform around 1 / rate.
        time_limit_s: No arrival and no resend lies beyond it.
        nodes: How many nodes take requests.
    """
    stream = random.Random(f"{seed}/jobs/producer/{producer}")
    deck: list[JobKind] = []
    at_s = stream.uniform(0, 1 / rate)
    while at_s < time_limit_s:
        if not deck:
            deck = make_deck(mix, stream)
        yield _arrival(mix, stream, deck.pop(), at_s, time_limit_s, nodes)
        at_s += stream.uniform(0, 2 / rate)


def make_deck(mix: Mix, stream: random.Random) -> list[JobKind]:
    """Return `DECK_SIZE` kinds in their shares, shuffled; each named kind at least once."""
    deck: list[JobKind] = []
    for kind in JobKind:
        share = mix.shares.get(kind, 0.0)
        if kind is not JobKind.SHORT and share > 0:
            deck.extend([kind] * max(1, round(share * DECK_SIZE)))
    deck.extend([JobKind.SHORT] * (DECK_SIZE - len(deck)))
    stream.shuffle(deck)
    return deck


def _arrival(
    mix: Mix, stream: random.Random, kind: JobKind, at_s: float, time_limit_s: float, nodes: int
) -> Arrival:
    job = str(uuid.UUID(int=stream.getrandbits(128), version=4))
    low, high = mix.work_ms[kind]
    work_ms = round(math.exp(stream.uniform(math.log(low), math.log(high))))
    delay_s = stream.randint(*mix.delay_ms) / 1000
    via = stream.randrange(nodes)
    again, after_s = stream.random() < mix.resend, stream.uniform(0, mix.resend_after_s_max)
    step = stream.randrange(1, nodes) if nodes > 1 else 0
    return Arrival(
        at_s=at_s,
        job=job,
        kind=kind,
        work_ms=work_ms,
        tries=_TRIES.get(kind, mix.tries),
        backoff_s=BACKOFF_S,
        timeout_s=OVERRUN_TIMEOUT_S if kind is JobKind.OVERRUN else mix.timeout_s,
        delay_s=delay_s if kind is JobKind.DELAYED else 0.0,
        via=via,
        resend_after_s=min(after_s, time_limit_s - at_s) if again else None,
        resend_via=(via + step) % nodes,
    )


def _log_uniform_mean(low: float, high: float) -> float:
    return (high - low) / math.log(high / low)
