"""How a node knows the broker's time again after it was down.

Every few seconds it notes the broker's time beside two of its host's clocks. After a restart of
the process alone, the host's boot clock says how long it was down. After a restart of the host its
time of day says so: the difference of two readings of one clock, so that a time of day that is
wrong by a constant does no harm.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

import msgspec
import trio

from .clock import NodeClock
from .logbook import Logbook
from .threads import see_room
from .timeofday import wall_us

CLOCK_FILE: Final = "clock"
SAVE_EVERY_S: Final = 5.0


class ClockMark(msgspec.Struct, frozen=True, kw_only=True):
    """One note.

    Attributes:
        boot: Names the host's boot.
        boottime_us: Since then, time asleep included.
        wall_us: The host's time of day, UTC.
        broker_us: The broker's time at that moment.
    """

    boot: str
    boottime_us: int
    wall_us: int
    broker_us: int

    def resumed_us(self, boot: str, boottime_us: int, wall_us: int) -> int:
        """The broker's time at a later moment, given the host's clocks then."""
        if boot == self.boot:
            return self.broker_us + max(0, boottime_us - self.boottime_us)
        return self.broker_us + max(0, wall_us - self.wall_us)


def boottime_us() -> int:
    """Since this host's boot."""
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1000


def boot_id() -> str:
    """Names this host's boot."""
    return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()


class ClockFile:
    """The notes of one data folder; losing them costs accuracy, never a message.

    Args:
        path: Where they are kept.
        wall_us: Reads the time of day.
    """

    def __init__(self, path: Path, wall_us: Callable[[], int] = wall_us) -> None:
        self._path = path
        self._wall_us = wall_us
        self._boot = boot_id()

    def start(self, logbook: Logbook) -> NodeClock:
        """Make the clock of a node that starts."""
        mark = self._load()
        now_us = self._wall_us()
        if mark is None:
            return NodeClock(now_us, self._wall_us, is_guess=True)
        start_us = mark.resumed_us(self._boot, boottime_us(), now_us)
        logbook.info("clock", ahead_of_wall_ms=(start_us - now_us) // 1000)
        return NodeClock(start_us, self._wall_us)

    async def keep(self, clock: NodeClock) -> None:
        """Save every `SAVE_EVERY_S`, until cancelled."""
        while True:
            await trio.sleep(SAVE_EVERY_S)
            mark = self._mark(clock)
            if mark is not None:
                see_room()
                await trio.to_thread.run_sync(self._write, mark, abandon_on_cancel=True)

    def save(self, clock: NodeClock) -> None:
        """Save now."""
        mark = self._mark(clock)
        if mark is not None:
            self._write(mark)

    def _mark(self, clock: NodeClock) -> ClockMark | None:
        if clock.is_guess:
            return None
        return ClockMark(
            boot=self._boot,
            boottime_us=boottime_us(),
            wall_us=self._wall_us(),
            broker_us=clock.broker_us(),
        )

    def _load(self) -> ClockMark | None:
        try:
            return msgspec.json.decode(self._path.read_bytes(), type=ClockMark)
        except (OSError, msgspec.MsgspecError):
            return None

    def _write(self, mark: ClockMark) -> None:
        temporary = self._path.with_suffix(".tmp")
        try:
            temporary.write_bytes(msgspec.json.encode(mark))
            os.replace(temporary, self._path)
        except OSError:
            # A full disk: the older note says the same, only less exactly.
            return
