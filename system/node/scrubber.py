"""A slow second look at what lies on the disk, so that rot is found before it is needed.

Sealed segments are read against the manifest, then the rows of the checkpoint against their
checksums, at a bounded rate, round after round. A rotten segment is reported, in the log, in the
metrics and by `/health`; the node goes on, as it needs the segment only to start again. A rotten
row ends the process: it would be served some day.
"""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Final

import trio

from ..storage.errors import DamagedLogError
from ..storage.manifest import NAME, SealedSegment, decode_manifest
from ..storage.segment_check import check_segment
from .checkpointer import Checkpointer
from .counters import Counters
from .logbook import Logbook
from .opening import StoreInForce
from .storage_limits import StorageLimits
from .threads import in_thread

_ROWS_AT_ONCE: Final = 200
_BUSY: Final = (errno.EMFILE, errno.ENFILE)
"""Nothing is wrong with a file that cannot be opened because too many others are; next round."""

_ROW_BYTES: Final = 256
"""About what a row weighs when the rate is kept."""


class Scrubber:
    """Reads everything again; see the module.

    Args:
        log_folder: Where the segments are.
        in_force: The store of checkpoints.
        checkpointer: Its lock keeps the store from being replaced under a look.
        limits: The rate.
        logbook: Hears of rot.
        counters: Counts what was looked at.

    Attributes:
        rotten: Segments that were found rotten, with the reason; they stay so until the next start.
    """

    def __init__(
        self,
        log_folder: Path,
        in_force: StoreInForce,
        checkpointer: Checkpointer,
        limits: StorageLimits,
        logbook: Logbook,
        counters: Counters,
    ) -> None:
        self.rotten: dict[str, str] = {}
        self._log_folder = log_folder
        self._in_force = in_force
        self._checkpointer = checkpointer
        self._limits = limits
        self._logbook = logbook
        self._counters = counters

    async def run(self) -> None:
        """Go round until cancelled."""
        if not self._limits.scrub_bytes_per_s:
            return
        while True:
            await trio.sleep(self._limits.scrub_pause_s / 100 + 1)
            await self.look_at_all()
            await trio.sleep(self._limits.scrub_pause_s)

    async def look_at_all(self) -> None:
        """One round.

        Raises:
            DamagedCheckpointError: A row is rotten.
        """
        for name in [segment.name for segment in self._sealed()]:
            # Listed anew each time: what has been purged meanwhile is no business of ours.
            segment = next((each for each in self._sealed() if each.name == name), None)
            if segment is not None and name not in self.rotten:
                await self._look_at(segment)
        after: bytes | None = None
        while True:
            async with self._checkpointer.lock:
                store = self._in_force.store
                after = await in_thread(store.check_some, after, _ROWS_AT_ONCE)
            self._counters.scrubbed_rows += _ROWS_AT_ONCE
            if after is None:
                break
            await self._pace(_ROWS_AT_ONCE * _ROW_BYTES)
        self._counters.scrub_rounds += 1

    def _sealed(self) -> tuple[SealedSegment, ...]:
        try:
            data = (self._log_folder / NAME).read_bytes()
        except FileNotFoundError:
            return ()
        except OSError as error:
            if error.errno in _BUSY:
                return ()
            raise
        try:
            return decode_manifest(data).sealed
        except ValueError as error:
            self._report(str(self._log_folder / NAME), 0, str(error))
            return ()

    async def _look_at(self, segment: SealedSegment) -> None:
        path = self._log_folder / segment.name
        try:
            await in_thread(check_segment, path, segment)
        except FileNotFoundError:
            if segment in self._sealed():
                self._report(str(path), 0, "the segment is missing")
            return
        except OSError as error:
            if error.errno in _BUSY:
                return
            self._report(str(path), 0, error.strerror or str(error))
        except DamagedLogError as error:
            self._report(error.file, error.offset, error.reason)
        self._counters.scrubbed_bytes += segment.bytes
        await self._pace(segment.bytes)

    def _report(self, file: str, offset: int, reason: str) -> None:
        name = Path(file).name
        if name not in self.rotten:
            self.rotten[name] = reason
            self._counters.rotten_segments += 1
            self._logbook.error("rot", file=file, offset=offset, reason=reason)

    async def _pace(self, looked_bytes: int) -> None:
        await trio.sleep(looked_bytes / self._limits.scrub_bytes_per_s)
