"""A node's disk that is slow, stalls, fails or is full, while the node runs."""

from __future__ import annotations

import errno
import os
import random
import time
from typing import Annotated, Final, Literal

import msgspec
import trio
from msgspec import Meta

from ..histories.ops import Json
from .acts import Evidence, NoBiteError, describe
from .gate import GateCounts, GateRule
from .node_acts import NodeAct
from .options import options_of
from .process import is_alive
from .settings import NemesisSettings
from .world import Target

DISK_FAILED: Final = 71
"""Exit status of a node that ends because its disk refused."""

_POLL_S: Final = 0.001
_DELAYS_MS: Final = (20, 50, 100, 200, 300)


class SlowSync(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Options of slow-sync.

    Attributes:
        sync_ms: Each sync waits so long first, milliseconds.
    """

    sync_ms: Annotated[float, Meta(gt=0, le=10_000)] = 100.0


class FullDisk(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Options of full-disk.

    Attributes:
        short: Whether each file's last write fits by half.
    """

    short: bool = True


class FailingWrite(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Options of failing-write.

    Attributes:
        error: What the system says.
    """

    error: Literal["EIO", "EROFS", "EDQUOT"] = "EIO"


def draw_slow(stream: random.Random, _settings: NemesisSettings) -> dict[str, Json]:
    """How slow: from hardly more than a busy disk to more than a heartbeat."""
    return {"sync_ms": stream.choice(_DELAYS_MS)}


def draw_full(stream: random.Random, _settings: NemesisSettings) -> dict[str, Json]:
    """Whether there is room for half a write."""
    return {"short": stream.random() < 0.7}


class GatedDisk(NodeAct):
    """What faults at the gate before a node's disk have in common: a rule, and what it hit."""

    def rule(self) -> GateRule:
        """What the gate is to do."""
        raise AssertionError(f"{self.fault.kind} has no rule")

    async def bite(self) -> Evidence:
        """See `Act`."""
        onsets_ms: Evidence = {}
        rule = self.rule()
        begun_s = time.monotonic()
        for target in self.targets:
            self.stage.world.disk_gate(target.name).begin(rule)
        self.bitten_s = time.monotonic()
        wait_s = self.stage.settings.leader_wait_s
        with trio.move_on_after(wait_s):
            while len(onsets_ms) < len(self.targets):
                for target in self.targets:
                    if target.name not in onsets_ms and self.counts(target).hits:
                        onsets_ms[target.name] = _ms_since(begun_s)
                await trio.sleep(_POLL_S)
        missed = [target.name for target in self.targets if target.name not in onsets_ms]
        if missed:
            raise NoBiteError(f"{', '.join(missed)} asked nothing of its disk for {wait_s:g} s")
        in_force_ms = round((self.bitten_s - begun_s) * 1000, 3)
        onset: Evidence = {"onset_ms": in_force_ms, "first_hit_ms": onsets_ms}
        return onset | self.hits()

    def counts(self, target: Target) -> GateCounts:
        """What the rule has done so far to one target."""
        return self.stage.world.disk_gate(target.name).counts

    def hits(self) -> Evidence:
        """What the rule has done so far, by node, and to which files."""
        hits: Evidence = {target.name: self.counts(target).hits for target in self.targets}
        files: set[str] = set()
        for target in self.targets:
            files |= {os.path.basename(path) for path in self.counts(target).files}
        names: list[Json] = [*sorted(files)]
        return {"hits": hits, "files": names}

    async def heal(self) -> Evidence:
        """See `Act`."""
        begun_s = time.monotonic()
        for target in self.targets:
            self.stage.world.disk_gate(target.name).end()
        opened: Evidence = {"heal_ms": _ms_since(begun_s)}
        return self.seen_meanwhile() | opened | self.hits() | await self.start_again()


class SlowSyncs(GatedDisk):
    """slow-sync: each sync waits, and then does what it should."""

    def rule(self) -> GateRule:
        """See `GatedDisk`."""
        return GateRule(delay_ms=options_of(self.fault, SlowSync).sync_ms)


class StalledSyncs(GatedDisk):
    """stalled-sync: no sync comes back before the fault is healed."""

    def rule(self) -> GateRule:
        """See `GatedDisk`."""
        return GateRule(holds=True)


class FailingDisk(GatedDisk):
    """failing-sync, failing-write, full-disk: the node must end by itself, and never try again."""

    async def bite(self) -> Evidence:
        """See `Act`."""
        evidence = await super().bite()
        self.told_to_end = True
        ended: Evidence = {}
        for target in self.targets:
            with trio.move_on_after(self.stage.settings.exit_wait_s):
                ended[target.name] = describe(await self.stage.world.wait_exit(target))
        if any(is_alive(target) for target in self.targets):
            lived = ", ".join(target.name for target in self.targets if is_alive(target))
            raise NoBiteError(f"{lived} went on although its disk had failed")
        wrong = [how for how in ended.values() if how != f"exit {DISK_FAILED}"]
        if wrong:
            raise NoBiteError(f"{self.hit} ended otherwise than by its disk: {ended}")
        return evidence | {"ended": ended} | self.hits()


class FailingSyncs(FailingDisk):
    """failing-sync: each sync fails with EIO."""

    def rule(self) -> GateRule:
        """See `GatedDisk`."""
        return GateRule(sync_error=errno.EIO)


class FailingWrites(FailingDisk):
    """failing-write: each write to a file fails."""

    def rule(self) -> GateRule:
        """See `GatedDisk`."""
        name = options_of(self.fault, FailingWrite).error
        return GateRule(write_error={v: k for k, v in errno.errorcode.items()}[name])


class FullDisks(FailingDisk):
    """full-disk: each write fails with ENOSPC; the last one before may have been half written."""

    def rule(self) -> GateRule:
        """See `GatedDisk`."""
        short = options_of(self.fault, FullDisk).short
        return GateRule(write_error=errno.ENOSPC, short=short)


def _ms_since(begun_s: float) -> float:
    return round((time.monotonic() - begun_s) * 1000, 3)
