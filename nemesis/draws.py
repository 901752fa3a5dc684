"""What a fault draws: each from a stream of its own, so that leaving one out moves no other."""

from __future__ import annotations

import random
from hashlib import blake2b
from typing import Final

from .fault import Fault
from .registry import NEMESES
from .settings import NemesisSettings
from .spec import AT_ONCE, NemesisSpec

_CHOICES: Final = 1 << 16


def stream_of(seed: int, *keys: str | int) -> random.Random:
    """The stream of one thing among all that are drawn from a seed."""
    text = "/".join(str(key) for key in (seed, *keys))
    key = blake2b(text.encode(), digest_size=8)
    return random.Random(int.from_bytes(key.digest(), "big"))


def draw_fault(
    spec: NemesisSpec,
    fault_id: str,
    at_ms: int,
    stream: random.Random,
    settings: NemesisSettings,
) -> Fault:
    """Draw a fault's duration, choice, target and options, in this order.

    Times are milliseconds as integers: the same on every machine and Python.
    """
    duration_ms = _duration_ms(spec, stream, settings)
    choice = stream.randrange(_CHOICES)
    target = stream.choice(spec.drawn) if spec.drawn else spec.target
    return Fault(
        id=fault_id,
        kind=spec.name,
        target=target,
        at_s=at_ms / 1000,
        duration_s=duration_ms / 1000,
        choice=choice,
        options={} if spec.draw is None else spec.draw(stream, settings),
    )


def _duration_ms(spec: NemesisSpec, stream: random.Random, settings: NemesisSettings) -> int:
    if spec.duration_s == AT_ONCE:
        return 0
    if spec.duration_s is not None:
        least, most = (round(bound_s * 1000) for bound_s in spec.duration_s)
    elif spec.pauses:
        least, most = round(settings.pause_s_min * 1000), round(settings.pause_s_max * 1000)
    else:
        down_ms = round(settings.down_s * 1000)
        least = down_ms - down_ms // 4
        most = least + down_ms // 2
    return least + stream.randrange(most - least + 1)


def healed_s(fault: Fault) -> float:
    """When a fault is healed, healing included, in seconds after the plan's start or its event."""
    # Whole milliseconds, like its parts: a sum of floats may lie a hair above the limit it names.
    return round(fault.at_s + fault.duration_s + NEMESES[fault.kind].healing_s, 3)
