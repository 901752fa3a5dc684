"""Frames that wait to be written to a connection."""

from __future__ import annotations

from collections import deque

import trio

from ..http.transport import Transport


class Outbox:
    """A queue of frames that never makes its producer wait.

    Attributes:
        bytes_queued: What waits, in bytes.
        unwritten_leases: Claims inside frames that have not been handed to the operating system.
    """

    def __init__(self) -> None:
        self.bytes_queued = 0
        self.unwritten_leases: list[str] = []
        self._frames: deque[bytes] = deque()
        self._wanted = trio.Event()

    def __len__(self) -> int:
        return len(self._frames)

    def put(self, data: bytes, lease: str | None = None) -> None:
        """Add one frame behind the others."""
        self._frames.append(data)
        self.bytes_queued += len(data)
        if lease is not None:
            self.unwritten_leases.append(lease)
        self._wanted.set()

    def drop_oldest(self) -> None:
        """Forget the frame that has waited longest."""
        self.bytes_queued -= len(self._frames.popleft())

    async def write_to(self, transport: Transport) -> None:
        """Write what is queued and what will be, many frames at a time, until cancelled.

        Raises:
            trio.BrokenResourceError: The connection is lost.
        """
        while True:
            if not self._frames:
                self._wanted = trio.Event()
                await self._wanted.wait()
                continue
            if len(self._frames) == 1:
                data = self._frames.popleft()
            else:
                data = b"".join(self._frames)
                self._frames.clear()
            self.bytes_queued = 0
            leases = len(self.unwritten_leases)
            await transport.send(data)
            del self.unwritten_leases[:leases]
