"""What hears of everything that goes over a connection; the capture is one."""

from __future__ import annotations

from typing import Protocol

from ..links import Pair


class Tap(Protocol):
    """Hears of one connection. `sent` is what came from its sender, `delivered` what went on."""

    def opened(self) -> None:
        """The connection was made."""

    def sent(self, pair: Pair, data: bytes, verdict: str, faults: str) -> None:
        """Bytes came from the first end of a link, for the other one."""

    def delivered(self, pair: Pair, data: bytes, faults: str) -> None:
        """Bytes were handed to the other end."""

    def ended(self, pair: Pair, how: str, faults: str) -> None:
        """The first end will send no more: `how` is fin or rst."""
