"""Links between nodes that lose, double, delay and reorder messages, or carry none at all."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from ...system.raft.messages import Message
from .scheduler import Scheduler
from .streams import Stream

DELAY_US_MIN: Final = 150
DELAY_US_MAX: Final = 900
TAIL_US_MAX: Final = 2_500_000

_NOISE: Final[tuple[tuple[float, float, float], ...]] = (
    (0.0, 0.0, 0.0),
    (0.02, 0.02, 0.02),
    (0.10, 0.05, 0.10),
    (0.25, 0.20, 0.25),
)
"""Shares of messages lost, doubled, and delayed up to `TAIL_US_MAX`, by noise level."""

Deliver = Callable[[int, int, Message, str], None]


class Network:
    """Every ordered pair of nodes is a link with a random stream of its own.

    Attributes:
        sent: Messages handed in.
        lost: Messages that a cut link or noise swallowed.
        doubled: Messages delivered twice.
    """

    __slots__ = (
        "_cuts",
        "_deliver",
        "_epoch",
        "_noise_levels",
        "_scheduler",
        "_streams",
        "doubled",
        "lost",
        "sent",
    )

    def __init__(self, seed: int, nodes: int, scheduler: Scheduler, deliver: Deliver) -> None:
        self._scheduler = scheduler
        self._deliver = deliver
        self._streams = [
            [Stream(seed, f"link:{source}>{target}") for target in range(nodes)]
            for source in range(nodes)
        ]
        self._cuts = [[0] * nodes for _ in range(nodes)]
        self._noise_levels: list[int] = []
        self._epoch = 0
        self.sent = 0
        self.lost = 0
        self.doubled = 0

    def send(self, source: int, target: int, message: Message, incarnation: str) -> None:
        """Carry a message, perhaps, and which data directory its sender had."""
        self.sent += 1
        if self._cuts[source][target]:
            self.lost += 1
            return
        stream = self._streams[source][target]
        if self._noise_levels:
            loss, double, _ = _NOISE[max(self._noise_levels)]
            if stream.chance(loss):
                self.lost += 1
                return
            if stream.chance(double):
                self.doubled += 1
                self._carry(stream, source, target, message, incarnation)
        self._carry(stream, source, target, message, incarnation)

    def _carry(
        self, stream: Stream, source: int, target: int, message: Message, incarnation: str
    ) -> None:
        delay_us = stream.between(DELAY_US_MIN, DELAY_US_MAX)
        if self._noise_levels and stream.chance(_NOISE[max(self._noise_levels)][2]):
            delay_us = stream.between(DELAY_US_MAX, TAIL_US_MAX)
        self._scheduler.after(
            delay_us, self._arrive, self._epoch, source, target, message, incarnation
        )

    def _arrive(
        self, epoch: int, source: int, target: int, message: Message, incarnation: str
    ) -> None:
        if epoch == self._epoch:
            self._deliver(source, target, message, incarnation)

    def is_cut(self, one: int, other: int) -> bool:
        """Whether a link between two nodes is cut, in one direction at least."""
        return bool(self._cuts[one][other] or self._cuts[other][one])

    def cut(self, links: list[tuple[int, int]], by: int) -> None:
        """Cut links (`by` 1) or mend them (`by` -1); a link cut twice needs mending twice."""
        for source, target in links:
            self._cuts[source][target] += by

    def add_noise(self, level: int) -> None:
        """Begin to lose, double and delay; the loudest level at a time counts."""
        self._noise_levels.append(level)

    def remove_noise(self, level: int) -> None:
        """End what `add_noise` began."""
        self._noise_levels.remove(level)

    def heal(self) -> None:
        """Mend all links, be quiet, and drop what is on its way: it may be seconds late."""
        self._epoch += 1
        self._noise_levels.clear()
        for row in self._cuts:
            row[:] = [0] * len(row)
