"""One directed link as the proxy has it: the rules in force, and what they have done."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import trio

from ..links import LinkCounts, LinkRule, Pair, combine
from .messages import KINDS

PLAIN = LinkRule()
_GRAIN = 0.02


def trouble_of(rule: LinkRule) -> str:
    """Say what a proxy cannot do of a rule; empty if it can do all."""
    for name in ("loss", "duplicate", "reorder", "corrupt"):
        if getattr(rule, name):
            return f"{name} needs packets, and a proxy carries streams"
    if rule.only and rule.only not in KINDS.values():
        known = ", ".join(KINDS.values())
        return f"there are no messages of kind {rule.only!r}; choose from: {known}"
    if rule.only and rule != LinkRule(drop=True, only=rule.only):
        return f"{rule.only} can be dropped, and nothing else"
    return ""


class LinkState:
    """The state of a directed link.

    Attributes:
        pair: Its ends.
        rule: What all faults together make of everything; rules for some messages are left out.
        unwanted: The kinds of messages that are dropped.
        is_plain: Whether nothing at all is to be done.
        counts: What each fault has done, by its id.
        cut_s: For how long the last cut lasted, once it is over.
    """

    def __init__(self, pair: Pair, chance: Random) -> None:
        self.pair = pair
        self.rule = PLAIN
        self.unwanted: frozenset[str] = frozenset()
        self.is_plain = True
        self.counts: dict[str, LinkCounts] = {}
        self.cut_s = 0.0
        self._faults: dict[str, LinkRule] = {}
        self._opened = trio.Event()
        self._opened.set()
        self._cut_at = 0.0
        self._free_at = 0.0
        self._last_due = 0.0
        self._chance = chance

    @property
    def is_cut(self) -> bool:
        """Whether nothing may pass."""
        return self.rule.drop

    @property
    def is_shaped(self) -> bool:
        """Whether what passes is late or has a bound."""
        rule = self.rule
        return bool(rule.delay_ms or rule.jitter_ms or rule.rate_bytes_s)

    def begin(self, fault: str, rule: LinkRule) -> None:
        """Put a rule into force."""
        self._faults[fault] = rule
        self.counts[fault] = LinkCounts()
        self._settle()

    def end(self, fault: str) -> bool:
        """Take a rule back; whether connections that were cut must be reset now."""
        was_cut, limit_s = self.is_cut, self.rule.reset_after_s
        if self._faults.pop(fault, None) is None:
            return False
        self._settle()
        return was_cut and not self.is_cut and 0 < limit_s <= self.cut_s

    def _settle(self) -> None:
        was_cut = self.is_cut
        rules = self._faults.values()
        self.rule = combine(rule for rule in rules if not rule.only)
        self.unwanted = frozenset(rule.only for rule in rules if rule.only)
        self.is_plain = not self._faults
        if self.is_cut and not was_cut:
            self._opened = trio.Event()
            self._cut_at = trio.current_time()
        elif was_cut and not self.is_cut:
            self.cut_s = trio.current_time() - self._cut_at
            self._opened.set()

    async def opened(self) -> None:
        """Wait until nothing is cut."""
        while self.is_cut:
            await self._opened.wait()

    def faults(self) -> str:
        """Name the faults in force, joined by commas."""
        return ",".join(self._faults)

    def _each(self) -> Iterator[tuple[LinkRule, LinkCounts]]:
        for fault, rule in self._faults.items():
            yield rule, self.counts[fault]

    def note_held(self, size: int) -> None:
        """Count that something came to a cut."""
        for rule, counts in self._each():
            if rule.drop and not rule.only:
                counts.dropped += 1
                counts.bytes += size

    def note_sifted(self, messages: int, size: int) -> None:
        """Count messages of unwanted kinds."""
        for rule, counts in self._each():
            if rule.only:
                counts.dropped += messages
                counts.bytes += size

    def note_passed(self, size: int) -> None:
        """Count what went on, late or not."""
        for rule, counts in self._each():
            counts.passed += 1
            counts.bytes += size
            if rule.delay_ms or rule.jitter_ms or rule.rate_bytes_s:
                counts.delayed += 1

    def note_swallowed(self, size: int) -> None:
        """Count what the closed end of a half-open connection was sent."""
        for rule, counts in self._each():
            if rule.half_open:
                counts.dropped += 1
                counts.bytes += size

    def note_resets(self, connections: int, fault: str) -> None:
        """Count connections that a fault has reset or closed."""
        if fault in self.counts:
            self.counts[fault].resets += connections

    def note_refused(self) -> None:
        """Count a connection that was refused."""
        for rule, counts in self._each():
            if rule.refuse:
                counts.refused += 1

    def due(self) -> float:
        """When what comes now is to go on; never before what came earlier."""
        rule = self.rule
        late_ms = rule.delay_ms + rule.jitter_ms * self._chance.uniform(-1, 1)
        self._last_due = max(self._last_due, trio.current_time() + max(0.0, late_ms) / 1000)
        return self._last_due

    def grain(self) -> int:
        """How many bytes may go on at once without exceeding the rate by a notable burst."""
        rate = self.rule.rate_bytes_s
        return max(256, int(rate * _GRAIN)) if rate else 0

    async def pay(self, size: int) -> None:
        """Wait for one's turn to send so many bytes under the rate, which all connections share."""
        rate = self.rule.rate_bytes_s
        if rate:
            begin = max(trio.current_time(), self._free_at)
            self._free_at = begin + size / rate
            await trio.sleep_until(begin)
