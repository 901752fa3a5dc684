"""After the load: wait until nothing is left, then read back what the system gave up."""

from __future__ import annotations

import sqlite3
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec
import trio

from ..histories.ops import DRAIN, READ_DEAD_LETTERS, READ_FAILED_JOBS, Json
from ..system.client import AsyncClient, BrokerError, DeadLetter
from ..system.jobs.failed import FailedStore
from ..workloads.lanes.plan import message_digest
from .progress import AttemptTail
from .recorder import Recorder

_POLL_S: Final = 0.25
_PAGE: Final = 100
_TIMER_GROUP: Final = "__timer__"
_ERROR_CHARS: Final = 200


@dataclass(frozen=True, slots=True)
class Quiet:
    """When a system counts as drained.

    Attributes:
        quiet_s: Nothing may have happened for so long: one lease, and a margin.
        deadline_s: Longest wait in all.
    """

    quiet_s: float
    deadline_s: float


@dataclass(frozen=True, slots=True)
class Left:
    """What the broker still holds."""

    pending: int
    timers: int

    @property
    def is_nothing(self) -> bool:
        """Whether it holds nothing."""
        return self.pending == 0 and self.timers == 0


class Drain:
    """Waits, and reads back, recording each as an operation.

    Args:
        client: Any node may answer.
        recorder: Where operations go.
        tail: Tells when the last attempt record was written.
        queue: The queue.
        group: The workers' consumer group.
    """

    def __init__(
        self, client: AsyncClient, recorder: Recorder, tail: AttemptTail, queue: str, group: str
    ) -> None:
        self._client = client
        self._recorder = recorder
        self._tail = tail
        self._queue = queue
        self._group = group

    async def left(self) -> Left:
        """Ask the broker what it still holds.

        Raises:
            BrokerError: No node answered.
        """
        depth = await self._client.depth(self._queue, self._group)
        timers = await self._client.count_timers(self._queue)
        return Left(depth.value.pending, timers.value)

    async def wait(self, quiet: Quiet) -> bool:
        """Wait until the broker holds nothing and the workers have been quiet; record `drain`.

        Returns:
            Whether it was reached; if not, the operation ends `info` and says what was left.
        """
        op = self._recorder.invoke(DRAIN, {"quiet_s": quiet.quiet_s})
        left: Left | None = None
        error = ""
        with trio.move_on_after(quiet.deadline_s):
            while True:
                try:
                    left = await self.left()
                except BrokerError as reason:
                    error = str(reason)
                else:
                    if left.is_nothing and self._quiet_for_s() >= quiet.quiet_s:
                        value: dict[str, Json] = {"pending": left.pending, "timers": left.timers}
                        self._recorder.complete(op, "ok", value)
                        return True
                await trio.sleep(_POLL_S)
        held = f"{left.pending} pending, {left.timers} timers" if left else error
        self._recorder.complete(op, "info", error=f"after {quiet.deadline_s:g} s: {held}")
        return False

    def _quiet_for_s(self) -> float:
        return (time.monotonic_ns() - self._tail.poll().last_ns) / 1e9

    async def read_dead_letters(self) -> None:
        """Read all dead letters back and record them as `[job, digest, error]`."""
        op = self._recorder.invoke(READ_DEAD_LETTERS)
        try:
            letters = [
                letter
                for group in (self._group, _TIMER_GROUP)
                for letter in await self._letters(group)
            ]
        except BrokerError as error:
            self._recorder.complete(op, "info", error=str(error))
            return
        jobs: list[Json] = [
            [
                *_named(bytes(letter.data), letter.transaction_id),
                (letter.error_message or "")[:_ERROR_CHARS],
            ]
            for letter in letters
        ]
        self._recorder.complete(op, "ok", {"jobs": jobs})

    async def _letters(self, group: str) -> list[DeadLetter]:
        found: list[DeadLetter] = []
        while True:
            page = await self._client.dlq(self._queue, group, limit=_PAGE, offset=len(found))
            found.extend(page.value.messages)
            if len(page.value.messages) < _PAGE:
                return found

    def read_failed_jobs(self, path: Path) -> None:
        """Read the failed-job store back and record it as `[job, digest, cause]`."""
        op = self._recorder.invoke(READ_FAILED_JOBS)
        store = FailedStore(path)
        try:
            rows = store.list()
        except sqlite3.Error as error:
            self._recorder.complete(op, "info", error=f"{path}: {error}")
            return
        finally:
            store.close()
        jobs: list[Json] = [[*_named(row.payload.encode(), row.id), row.cause] for row in rows]
        self._recorder.complete(op, "ok", {"jobs": jobs})


class _Job(msgspec.Struct):
    job: str
    id: str
    data: msgspec.Raw


class _Envelope(msgspec.Struct):
    body: _Job = msgspec.field(name="_job")


def _named(payload: bytes, otherwise: str) -> tuple[str, str]:
    """Return a message's job and digest; what carries no job is named otherwise."""
    try:
        job = msgspec.json.decode(payload, type=_Envelope).body
    except msgspec.MsgspecError:
        return otherwise, message_digest(payload)
    return job.id, message_digest(payload)
