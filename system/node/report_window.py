"""The window of a report, cut into buckets whose width follows from its length."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from ..http.request import ReportRequest
from ..http.timestamps import rfc3339
from .activity import MINUTE_US, Activity, Tally

BUCKETS_MAX: Final = 2000

_WIDTHS: Final = ((60, 1), (6 * 60, 5), (24 * 60, 15), (7 * 24 * 60, 60))
_WIDEST: Final = 360


@dataclass(frozen=True, slots=True)
class Window:
    """From one instant to another, UTC microseconds.

    Attributes:
        minutes: Width of a bucket.
    """

    from_us: int
    to_us: int
    minutes: int

    def floor(self, instant_us: int) -> int:
        """Begin of the bucket that an instant is in."""
        width_us = self.minutes * MINUTE_US
        return instant_us // width_us * width_us

    def buckets(self) -> list[int]:
        """Begins of all buckets, the last `BUCKETS_MAX` of them."""
        width_us = self.minutes * MINUTE_US
        last = self.floor(self.to_us)
        first = max(self.floor(self.from_us), last - (BUCKETS_MAX - 1) * width_us)
        return list(range(first, last + 1, width_us))

    def as_body(self) -> dict[str, str]:
        """As the wire has it."""
        return {"from": rfc3339(self.from_us), "to": rfc3339(self.to_us)}

    def per_second(self, count: int) -> float:
        """A bucket's count as a rate."""
        return round(count / (self.minutes * 60), 2)


def window_of(request: ReportRequest, now_us: int, default_minutes: int = 60) -> Window:
    """The window that a request asks for; a turned one is empty."""
    to_us = now_us if request.to_us is None else request.to_us
    from_us = to_us - default_minutes * MINUTE_US if request.from_us is None else request.from_us
    from_us = max(0, min(from_us, to_us))
    minutes = (to_us - from_us) / MINUTE_US
    width = next((width for length, width in _WIDTHS if minutes <= length), _WIDEST)
    return Window(from_us, to_us, width)


def rolled(
    activity: Activity, window: Window, queues: Iterable[str] | None
) -> dict[tuple[int, str], Tally]:
    """Tallies by (bucket, queue), in this order; None means all queues."""
    wanted = None if queues is None else set(queues)
    found: dict[tuple[int, str], Tally] = {}
    for minute_us, queue, tally in activity.between(window.floor(window.from_us), window.to_us):
        if wanted is None or queue in wanted:
            found.setdefault((window.floor(minute_us), queue), Tally()).add(tally)
    return dict(sorted(found.items()))


def lag_ms(tally: Tally) -> tuple[int | None, int | None]:
    """Mean and highest age at delivery; None twice when nothing was delivered."""
    if not tally.pop_messages:
        return None, None
    return round(tally.lag_ms / tally.pop_messages), tally.lag_ms_max


def parked(tally: Tally) -> float:
    """How many pops waited, on average."""
    return round(tally.parked / tally.samples, 2) if tally.samples else 0.0
