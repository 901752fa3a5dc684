"""How a node keeps its log and its checkpoints."""

from __future__ import annotations

from typing import Final

import msgspec

_MIB: Final = 1 << 20


class StorageLimits(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """All of them are settings.

    Attributes:
        checkpoint_ms: Pause between two checkpoints.
        checkpoint_bytes: Applied bytes after which one is made before that.
        segment_bytes: A log segment that has reached this is sealed.
        tail_bytes: Entries behind the last checkpoint that are kept in memory and on disk, so that
            a member that was away for a moment needs no snapshot.
        hold_bytes: What is kept for a member that is further behind, or away.
        snapshot_bytes_per_s: How fast a snapshot is sent.
        scrub_bytes_per_s: How fast sealed segments and checkpoint rows are read again, to find
            rot; 0 never.
        scrub_pause_s: From the end of such a round to the next.
    """

    checkpoint_ms: int = 1000
    checkpoint_bytes: int = 256 * _MIB
    segment_bytes: int = 32 * _MIB
    tail_bytes: int = 32 * _MIB
    hold_bytes: int = 256 * _MIB
    snapshot_bytes_per_s: int = 64 * _MIB
    scrub_bytes_per_s: int = 4 * _MIB
    scrub_pause_s: int = 6 * 3600

    def trouble(self) -> str | None:
        """What is wrong with the values, if anything is."""
        for name in self.__struct_fields__:
            least = 0 if name in ("scrub_bytes_per_s", "scrub_pause_s", "tail_bytes") else 1
            if getattr(self, name) < least:
                return f"{name}: {getattr(self, name)} is less than {least}"
        if self.hold_bytes < self.tail_bytes:
            return f"hold_bytes: {self.hold_bytes} is less than tail_bytes, {self.tail_bytes}"
        return None


DEFAULT_STORAGE: Final = StorageLimits()
