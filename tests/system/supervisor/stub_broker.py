"""A broker's client without a broker: depths, watermarks and replicas, as a test wants them."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any, cast

import msgspec
import trio

from atleastonce.system.client import (
    Answer,
    AsyncClient,
    BrokerError,
    Depth,
    Endpoint,
    Fetched,
    FetchedPartition,
)

NODE = Endpoint("127.0.0.1", 1)


@dataclass
class StubBroker:
    """Answers the calls that sizing makes.

    Attributes:
        depths: What each queue holds.
        marks: High watermarks by queue and partition; a queue without any is unknown.
        fails: Status of every answer while it is set; 0 is no answer at all.
        asked: Names of the calls, in order.
        parked: How many long polls wait.
    """

    depths: dict[str, int] = field(default_factory=dict)
    marks: dict[tuple[str, str], int] = field(default_factory=dict)
    fails: int | None = None
    asked: list[str] = field(default_factory=list)
    parked: int = 0
    together: int = 0
    together_max: int = 0
    _changed: trio.Event = field(default_factory=trio.Event)

    @property
    def client(self) -> AsyncClient:
        return cast(AsyncClient, self)

    def change(self) -> None:
        """Have long polls look again."""
        self._changed.set()
        self._changed = trio.Event()

    async def call(self, call: Any, **extra: Any) -> Answer[Any]:
        self.asked.append(call.name)
        self.together += 1
        self.together_max = max(self.together, self.together_max)
        await trio.sleep(0.001)
        self.together -= 1
        if self.fails is not None:
            raise BrokerError(self.fails or None, "stub", "fails", definite=False)
        if call.name == "depth":
            (queue,) = re.findall("/queues/([^/]+)/depth", call.target)
            return Answer(Depth(pending=self.depths.get(queue, 0)), NODE, 1)
        return Answer(await self._fetch(call), NODE, 1)

    async def _fetch(self, call: Any) -> Fetched:
        body = msgspec.json.decode(call.body)
        with trio.move_on_after(body["maxWaitMs"] / 1000):
            self.parked += 1
            while not self._is_final(body["entries"]):
                await self._changed.wait()
        self.parked -= 1
        return Fetched(tuple(self._entry(entry) for entry in body["entries"]))

    def _is_final(self, entries: list[dict[str, Any]]) -> bool:
        return any(
            found.error or found.high_watermark > entry["offset"]
            for entry in entries
            for found in (self._entry(entry),)
        )

    def _entry(self, entry: dict[str, Any]) -> FetchedPartition:
        queue, partition = entry["queue"], entry["partition"]
        if not any(known == queue for known, _ in self.marks):
            error = "UNKNOWN_TOPIC_OR_PARTITION"
            return FetchedPartition(queue, partition, error=error)
        mark = self.marks.get((queue, partition), 0)
        error = "OFFSET_OUT_OF_RANGE" if mark and entry["offset"] > mark else ""
        return FetchedPartition(queue, partition, high_watermark=mark, error=error)
