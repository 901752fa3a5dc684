"""How much of the interesting a run has reached."""

from __future__ import annotations

import msgspec


class Counters(msgspec.Struct):
    """Counts of one run, or of many added up; a green run that counted nothing proves nothing."""

    elections: int = 0
    crashes: int = 0
    snipes: int = 0
    cuts: int = 0
    pauses: int = 0
    transfers: int = 0
    truncations: int = 0
    refusals: int = 0
    proposed: int = 0
    acked: int = 0
    unknown: int = 0
    reads: int = 0
    reads_failed: int = 0
    committed: int = 0
    sent: int = 0
    lost: int = 0
    doubled: int = 0
    checkpoints: int = 0
    compactions: int = 0
    snapshots: int = 0
    installs: int = 0
    changes: int = 0
    changes_refused: int = 0
    wipes: int = 0

    def add(self, other: Counters) -> None:
        """Add another run's counts to these."""
        for name in self.__struct_fields__:
            setattr(self, name, getattr(self, name) + getattr(other, name))
