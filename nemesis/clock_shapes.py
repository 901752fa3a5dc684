"""How a time of day is wrong for a while: by a step, by more and more, or back and forth."""

from __future__ import annotations

import math
import random
import time
from typing import Annotated, Final

import msgspec
import trio
from msgspec import Meta

from ..histories.ops import Json
from .acts import Evidence, NoBiteError
from .fault import Fault
from .options import options_of
from .settings import NemesisSettings

STEP_S_MIN: Final = 0.5
STEP_S_MAX: Final = 300.0
_SEEN_WITHIN_US: Final = 200_000
"""What is seen of a step may be off by what asking for it takes."""

_MOVE_S: Final = 0.01
_RATE_MIN: Final = 0.1
_RATE_MAX: Final = 60.0
_PERIODS_MS: Final = (5, 20, 100, 500)

StepMs = Annotated[float, Meta(ge=-3_600_000, le=3_600_000)]


class BumpOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Options of bump-clock.

    Attributes:
        step_ms: How far, either way; 0 draws from half a second to five minutes.
    """

    step_ms: StepMs = 0.0


class DriftOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Options of drift-clock.

    Attributes:
        rate: Seconds that the clock gains in a second, or loses if below 0.
    """

    rate: Annotated[float, Meta(ge=-1000, le=1000)] = 1.0


class StrobeOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Options of strobe-clock.

    Attributes:
        step_ms: How far it jumps, either way.
        period_ms: So long it is wrong, and so long right.
    """

    step_ms: StepMs = 10_000.0
    period_ms: Annotated[float, Meta(ge=1, le=60_000)] = 20.0


def _drawn(stream: random.Random, least: float, most: float) -> float:
    """A size on a logarithmic scale, either way."""
    size = math.exp(stream.uniform(math.log(least), math.log(most)))
    return round(size, 3) * stream.choice((-1, 1))


def draw_drift(stream: random.Random, _settings: NemesisSettings) -> dict[str, Json]:
    """How fast, from a tenth of a second a second to a minute."""
    return {"rate": _drawn(stream, _RATE_MIN, _RATE_MAX)}


def draw_strobe(stream: random.Random, _settings: NemesisSettings) -> dict[str, Json]:
    """How far and how often."""
    step_ms = _drawn(stream, STEP_S_MIN * 1000, STEP_S_MAX * 1000)
    return {"step_ms": step_ms, "period_ms": stream.choice(_PERIODS_MS)}


def step_us(fault: Fault) -> int:
    """How far a bump moves the clock: either way, as often by a second as by minutes."""
    told_ms = options_of(fault, BumpOptions).step_ms
    if told_ms:
        return round(told_ms * 1000)
    stream = random.Random(fault.choice)
    exponent = stream.uniform(math.log(STEP_S_MIN), math.log(STEP_S_MAX))
    return round(math.exp(exponent) * 1_000_000) * stream.choice((-1, 1))


def within_us(step: int) -> int:
    """How far what is seen of a step may be off."""
    return min(_SEEN_WITHIN_US, abs(step) // 2) or _SEEN_WITHIN_US


class Clocks:
    """The clocks that a fault moves, with the way they are moved and looked at.

    Attributes:
        fault: The fault.
        bitten_s: CLOCK_MONOTONIC when the last step was seen.
    """

    fault: Fault
    bitten_s: float

    def set_all(self, error_us: int) -> None:
        """Make the clocks wrong by so much."""
        raise AssertionError(f"{self.fault.kind} moves nothing by {error_us} us")

    async def demand(self, step: int) -> Evidence:
        """Step the clocks; `NoBiteError` if one does not show it."""
        raise AssertionError(f"{self.fault.kind} sees nothing of {step} us")

    async def hold(self) -> None:
        """See `Act`."""
        raise AssertionError(f"{self.fault.kind} does not last")

    async def heal(self) -> Evidence:
        """See `Act`."""
        raise AssertionError(f"{self.fault.kind} does not heal")


class Bump(Clocks):
    """Step the time of day, see that it took, and step it back."""

    async def bite(self) -> Evidence:
        """See `Act`."""
        return await self.demand(step_us(self.fault))


class Moving(Clocks):
    """A clock that is moved again and again while the fault lasts."""

    moves = 0

    async def move(self) -> None:
        """Move the clocks, until cancelled."""
        raise AssertionError(f"{self.fault.kind} does not move")

    async def hold(self) -> None:
        """See `Act`."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self.move)
            await super().hold()
            nursery.cancel_scope.cancel()

    async def heal(self) -> Evidence:
        """See `Act`."""
        return {"moves": self.moves} | await super().heal()


class Drift(Moving):
    """The time of day runs too fast, too slow or backwards, in steps of 10 ms."""

    async def bite(self) -> Evidence:
        """See `Act`."""
        rate = options_of(self.fault, DriftOptions).rate
        if not rate:
            raise NoBiteError("a drift of 0 is none")
        # What it has gained after the first half second, at once: it can be seen then.
        self.gained_us = round(rate * 500_000)
        return {"rate": rate} | await self.demand(self.gained_us)

    async def move(self) -> None:
        """See `Moving`."""
        rate = options_of(self.fault, DriftOptions).rate
        while True:
            passed_s = time.monotonic() - self.bitten_s
            self.set_all(self.gained_us + round(rate * passed_s * 1e6))
            self.moves += 1
            await trio.sleep(_MOVE_S)


class Strobe(Moving):
    """The time of day jumps to and fro."""

    async def bite(self) -> Evidence:
        """See `Act`."""
        step = round(options_of(self.fault, StrobeOptions).step_ms * 1000)
        if not step:
            raise NoBiteError("a step of 0 is none")
        there = await self.demand(step)
        back = await self.demand(0)
        return there | {"back": back}

    async def move(self) -> None:
        """See `Moving`."""
        options = options_of(self.fault, StrobeOptions)
        while True:
            self.set_all(0 if self.moves % 2 else round(options.step_ms * 1000))
            self.moves += 1
            await trio.sleep(options.period_ms / 1000)
