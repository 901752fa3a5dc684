"""Recording frames over AF_PACKET (`packet(7)`): as they leave an end, and as they reach one.

A frame that a fault drops between two cables is seen at the first one only: that proves the drop.
"""

from __future__ import annotations

import signal
import socket
import struct
import sys
import time
from pathlib import Path
from typing import Final

import trio

from ...histories.pcapng import PcapngRing
from ..proxy.capture import DELIVERED, SENT
from .plan import TappedEnd, TapPlan

COMMENT: Final = "packets of a private network, as they left one end and as they reached the other"
_EVERY_PROTOCOL: Final = 3
_SOL_PACKET: Final = 263
_STATISTICS: Final = 6
_TIMESTAMP_NS: Final = 35
_TIMESPEC: Final = struct.Struct("qq")
_OUTGOING: Final = 4
_FRAME_BYTES: Final = 1 << 17
_BUFFER_BYTES: Final = 8 << 20
_AT_ONCE: Final = 64
_FLUSH_S: Final = 1.0
_ADDRESSES: Final = 26
_IPV4: Final = b"\x08\x00"


class Tapping:
    """Records what passes the cables of all ends.

    Args:
        plan: The ends and the files.

    Raises:
        OSError: An interface is not there, or the disk refuses.
    """

    def __init__(self, plan: TapPlan) -> None:
        self._names = {end.number: end.name for end in plan.ends}
        self._network = bytes(plan.network)
        self._ports = {end.name: _open(end) for end in plan.ends}
        names = [
            f"{source.name}>{target.name} {stage}"
            for source in plan.ends
            for target in plan.ends
            if source != target
            for stage in (SENT, DELIVERED)
        ]
        self._interfaces = {name: number for number, name in enumerate(names)}
        capture = plan.capture
        self._ring = PcapngRing(
            Path(capture.folder), names, COMMENT, capture.segment_bytes, capture.segments
        )
        self._ring.flush()

    async def run(self) -> None:
        """Record until cancelled."""
        async with trio.open_nursery() as nursery:
            for name, port in self._ports.items():
                nursery.start_soon(self._listen, name, port)
            while True:
                await trio.sleep(_FLUSH_S)
                self._ring.flush()

    async def _listen(self, name: str, port: socket.socket) -> None:
        while True:
            await trio.lowlevel.wait_readable(port)
            ahead_ns = time.monotonic_ns() - time.time_ns()
            for _ in range(_AT_ONCE):
                try:
                    frame, told, _, address = port.recvmsg(_FRAME_BYTES, 64)
                except BlockingIOError:
                    break
                wall_ns = next(
                    (_wall_ns(data) for _, kind, data in told if kind == _TIMESTAMP_NS), 0
                )
                is_outgoing = address[2] == _OUTGOING
                self._record(name, is_outgoing, frame, wall_ns or time.time_ns(), ahead_ns)

    def _record(
        self, name: str, is_outgoing: bool, frame: bytes, wall_ns: int, ahead_ns: int
    ) -> None:
        at = _ADDRESSES
        if frame[12:14] != _IPV4 or frame[at : at + 3] != self._network:
            return
        source, target = self._names.get(frame[at + 3]), self._names.get(frame[at + 7])
        # Outgoing on a cable's port is what the end receives.
        stage, expected = (DELIVERED, target) if is_outgoing else (SENT, source)
        interface = self._interfaces.get(f"{source}>{target} {stage}")
        if interface is not None and expected == name:
            comment = (
                f"verdict={'pass' if is_outgoing else 'seen'} fault=- mono={wall_ns + ahead_ns}"
            )
            self._ring.write(interface, wall_ns, frame, comment)

    def close(self) -> int:
        """Write the rest; return how many frames the kernel could not hand over in time."""
        lost = 0
        for port in self._ports.values():
            _, dropped = struct.unpack("II", port.getsockopt(_SOL_PACKET, _STATISTICS, 8))
            lost += dropped
            port.close()
        self._ring.close()
        return lost


def _open(end: TappedEnd) -> socket.socket:
    port = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(_EVERY_PROTOCOL))
    port.setsockopt(socket.SOL_SOCKET, _TIMESTAMP_NS, 1)
    port.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _BUFFER_BYTES)
    port.bind((end.port, _EVERY_PROTOCOL))
    port.setblocking(False)
    return port


def _wall_ns(data: bytes) -> int:
    seconds, nanoseconds = _TIMESPEC.unpack(data[: _TIMESPEC.size])
    return int(seconds) * 1_000_000_000 + int(nanoseconds)


def record(plan: TapPlan) -> None:
    """Record until SIGTERM; raises OSError if it cannot begin."""
    tapping = Tapping(plan)
    try:
        trio.run(_until_told, tapping)
    finally:
        lost = tapping.close()
        if lost:
            print(f"{lost} frames were lost: the wiretap was too slow", file=sys.stderr)  # noqa: T201


async def _until_told(tapping: Tapping) -> None:
    with trio.open_signal_receiver(signal.SIGTERM) as signals:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(tapping.run)
            async for _ in signals:
                nursery.cancel_scope.cancel()
