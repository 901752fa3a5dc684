"""What became of each packet: one that was sent and is not delivered soon was lost. Pure."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from ..links import Pair

SENT: Final = "sent"
DELIVERED: Final = "delivered"
PASS: Final = "pass"
DROP: Final = "drop"
_PATIENCE_NS: Final = 1_000_000_000
_NETWORK_ORDER: Final = slice(16, 20)
_PORTS_AND_NUMBER: Final = slice(34, 42)

Mark = tuple[Pair, bytes, bytes]


@dataclass(frozen=True, slots=True)
class Sighting:
    """A packet as it was seen, with what became of it.

    Attributes:
        pair: The link.
        stage: `sent` or `delivered`.
        wall_ns: When, as the kernel stamped it.
        frame: Whole.
        verdict: `pass`; or `drop` for one that was not delivered within a second.
    """

    pair: Pair
    stage: str
    wall_ns: int
    frame: bytes
    verdict: str


def mark_of(pair: Pair, frame: bytes) -> Mark:
    """What a packet keeps on its way, its payload changed or not: lengths, ports and numbers."""
    return pair, frame[_NETWORK_ORDER], frame[_PORTS_AND_NUMBER]


class Matching:
    """Holds sent packets back until it is known what became of them."""

    def __init__(self) -> None:
        self._waiting: deque[tuple[Mark, Sighting]] = deque()
        self._delivered: Counter[Mark] = Counter()
        self._marks: deque[tuple[int, Mark]] = deque()

    def see(self, pair: Pair, stage: str, wall_ns: int, frame: bytes) -> Iterator[Sighting]:
        """Take a packet in; yield those of which everything is known by now."""
        mark = mark_of(pair, frame)
        if stage == DELIVERED:
            self._delivered[mark] += 1
            self._marks.append((wall_ns, mark))
            yield Sighting(pair, stage, wall_ns, frame, PASS)
        else:
            self._waiting.append((mark, Sighting(pair, stage, wall_ns, frame, DROP)))
        yield from self.settle(wall_ns)

    def settle(self, wall_ns: int) -> Iterator[Sighting]:
        """Yield the sent packets that were delivered, or that nobody waits for any longer."""
        while self._waiting:
            mark, sighting = self._waiting[0]
            if not self._delivered[mark] and wall_ns - sighting.wall_ns < _PATIENCE_NS:
                break
            self._waiting.popleft()
            yield self._judged(mark, sighting)
        # A packet that comes twice leaves a delivery over, which must not excuse a later loss.
        while self._marks and wall_ns - self._marks[0][0] > 2 * _PATIENCE_NS:
            _, mark = self._marks.popleft()
            if self._delivered[mark] <= 1:
                del self._delivered[mark]
            else:
                self._delivered[mark] -= 1

    def rest(self) -> Iterator[Sighting]:
        """Yield all that is still held back."""
        while self._waiting:
            yield self._judged(*self._waiting.popleft())

    def _judged(self, mark: Mark, sighting: Sighting) -> Sighting:
        verdict = PASS if self._delivered[mark] else DROP
        return Sighting(sighting.pair, SENT, sighting.wall_ns, sighting.frame, verdict)
