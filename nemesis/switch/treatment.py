"""What a link does with each of its frames, as a rule says. Pure: time and chance are passed in."""

from __future__ import annotations

import random
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from .frames import corrupted
from .kinds import ALL, is_meant

_HELD_BACK_S: Final = 0.01
"""A frame that is reordered waits so long while later ones overtake it."""
_BACKLOG_S_MAX: Final = 2.0
"""A narrow link drops what it could not send within this, as a router's queue does."""

Share = Annotated[float, Meta(ge=0, le=1)]


class PacketRule(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What one direction of a link does.

    Attributes:
        drop: Nothing passes.
        delay_ms: Each frame is late by this.
        jitter_ms: Give or take up to this, the order kept.
        loss: Share of frames that vanish.
        duplicate: Share that come twice.
        reorder: Share that later ones overtake.
        corrupt: Share whose payload changes under a checksum that stays right.
        rate_bytes_s: So much passes in a second; 0 is no bound.
        only: The frames that the rule is for, one of `kinds.CHOICES`; the others go by the link's
            other rule, if it has one.
    """

    drop: bool = False
    delay_ms: float = 0.0
    jitter_ms: float = 0.0
    loss: Share = 0.0
    duplicate: Share = 0.0
    reorder: Share = 0.0
    corrupt: Share = 0.0
    rate_bytes_s: float = 0.0
    only: str = ALL


class PacketCounts(msgspec.Struct, kw_only=True):
    """What a rule has done so far, in frames."""

    passed: int = 0
    dropped: int = 0
    delayed: int = 0
    duplicated: int = 0
    reordered: int = 0
    corrupted: int = 0
    bytes: int = 0


class Treatment:
    """One direction of a link under a rule.

    Args:
        rule: What to do.
        stream: Where chance comes from.
    """

    def __init__(self, rule: PacketRule, stream: random.Random) -> None:
        self.rule = rule
        self.counts = PacketCounts()
        self._stream = stream
        self._last_s = 0.0
        self._free_s = 0.0

    def is_for(self, frame: bytes) -> bool:
        """Whether the rule is for a frame."""
        return is_meant(frame, self.rule.only)

    def treat(self, now_s: float, frame: bytes) -> list[tuple[float, bytes]]:
        """Decide on a frame that came in now: when which frames go out, none if it is lost."""
        rule, counts = self.rule, self.counts
        if rule.drop or self._happens(rule.loss):
            counts.dropped += 1
            return []
        due_s = self._due(now_s, len(frame))
        if due_s is None:
            counts.dropped += 1
            return []
        if self._happens(rule.corrupt) and (changed := corrupted(frame, self._stream)):
            counts.corrupted += 1
            frame = changed
        counts.passed += 1
        counts.bytes += len(frame)
        if self._happens(rule.reorder):
            counts.reordered += 1
            return [(due_s + _HELD_BACK_S, frame)]
        if self._happens(rule.duplicate):
            counts.duplicated += 1
            return [(due_s, frame), (due_s, frame)]
        return [(due_s, frame)]

    def _happens(self, share: float) -> bool:
        return share > 0 and self._stream.random() < share

    def _due(self, now_s: float, size: int) -> float | None:
        """When the frame leaves; None if the link's queue is full."""
        rule = self.rule
        due_s = now_s
        if rule.rate_bytes_s:
            if self._free_s - now_s > _BACKLOG_S_MAX:
                return None
            due_s = self._free_s = max(now_s, self._free_s) + size / rule.rate_bytes_s
        if rule.delay_ms or rule.jitter_ms:
            late_ms = rule.delay_ms + rule.jitter_ms * self._stream.uniform(-1, 1)
            due_s += max(0.0, late_ms) / 1000
        if due_s > now_s:
            self.counts.delayed += 1
        self._last_s = max(due_s, self._last_s)
        return self._last_s
