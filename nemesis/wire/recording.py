"""Reading the ports of a private network (`packet(7)`) into a ring of pcapng files."""

from __future__ import annotations

import select
import signal
import socket
import struct
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import msgspec

from ...histories.pcapng import PcapngRing
from ..links import Pair
from ..switch.frames import pair_of
from .marks import MarkReader
from .matching import DELIVERED, SENT, Matching, Sighting

COMMENT: Final = "frames at the ports of all ends: as they were sent, and as they were delivered"
_EVERY_PROTOCOL: Final = 3
_OUTGOING: Final = 4
_SO_TIMESTAMPNS: Final = 35
_TIMESPEC: Final = struct.Struct("=qq")
_FRAME_BYTES: Final = 1 << 17
_ANCILLARY_BYTES: Final = 64
_BUFFER_BYTES: Final = 8 << 20
_AT_ONCE: Final = 64
_SETTLE_S: Final = 0.2
_NS: Final = 1_000_000_000


class WirePlan(msgspec.Struct, frozen=True):
    """What the recording is started with: a file of JSON.

    Attributes:
        ends: Name, port and number of each end.
        network: First three bytes of the addresses that are recorded.
        folder: Where the files go.
        segment_bytes: When the next file is begun.
        segments: So many files are kept, the newest.
        marks: The file of a `MarkWriter`, which says what acts on which link.
    """

    ends: list[tuple[str, str, int]]
    network: list[int]
    folder: str
    segment_bytes: int
    segments: int
    marks: str


class Recording:
    """Records until it is told to end by SIGTERM.

    Args:
        plan: Whose ports, in the network namespace of the caller.

    Raises:
        OSError: A port cannot be opened, or the disk refuses.
    """

    def __init__(self, plan: WirePlan) -> None:
        self._names = {number: name for name, _, number in plan.ends}
        self._network = bytes(plan.network)
        self._matching = Matching()
        self._ports = {}
        for name, port, _ in plan.ends:
            sock = _open(port)
            self._ports[sock.fileno()] = (name, sock)
        names = list(self._names.values())
        pairs = [(one, other) for one in names for other in names if one != other]
        interfaces = [f"{a}>{b} {stage}" for a, b in pairs for stage in (SENT, DELIVERED)]
        self._interfaces = {name: number for number, name in enumerate(interfaces)}
        self._ring = PcapngRing(
            Path(plan.folder), interfaces, COMMENT, plan.segment_bytes, plan.segments
        )
        self._faults = MarkReader(Path(plan.marks))
        self._is_over = False

    def run(self) -> None:
        """Record."""
        signal.signal(signal.SIGTERM, self._end)
        poll = select.epoll()
        for descriptor in self._ports:
            poll.register(descriptor, select.EPOLLIN)
        self._ring.flush()
        while not self._is_over:
            for descriptor, _ in poll.poll(_SETTLE_S):
                self._drain(*self._ports[descriptor])
            self._write(self._matching.settle(time.time_ns()))
            self._ring.flush()
        # What went over the wire before the end waits in the buffers of the ports.
        over_s = time.monotonic() + _SETTLE_S
        while time.monotonic() < over_s and (ready := poll.poll(0)):
            for descriptor, _ in ready:
                self._drain(*self._ports[descriptor])
        self._write(self._matching.rest())
        self._ring.close()
        self._faults.close()

    def _end(self, *_: object) -> None:
        self._is_over = True

    def _drain(self, end: str, port: socket.socket) -> None:
        for _ in range(_AT_ONCE):
            try:
                frame, ancillary, _, address = port.recvmsg(_FRAME_BYTES, _ANCILLARY_BYTES)
            except BlockingIOError:
                return
            numbers = pair_of(frame, self._network)
            if numbers is None:
                continue
            pair: Pair = (self._names.get(numbers[0], ""), self._names.get(numbers[1], ""))
            stage = DELIVERED if address[2] == _OUTGOING else SENT
            if all(pair) and end == pair[stage == DELIVERED]:
                self._write(self._matching.see(pair, stage, _stamp(ancillary), frame))

    def _write(self, sightings: Iterable[Sighting]) -> None:
        # Packets are stamped by the wall clock, everything else of a run by the monotonic one.
        ahead_ns = time.monotonic_ns() - time.time_ns()
        # Whatever acted on a packet that is here was told before.
        self._faults.update()
        for each in sightings:
            mono_ns = each.wall_ns + ahead_ns
            faults = self._faults.marks.at(each.pair, mono_ns)
            comment = f"verdict={each.verdict} fault={faults} mono={mono_ns}"
            interface = self._interfaces[f"{each.pair[0]}>{each.pair[1]} {each.stage}"]
            self._ring.write(interface, each.wall_ns, each.frame, comment)


def _open(port: str) -> socket.socket:
    sock = socket.socket(socket.AF_PACKET, socket.SOCK_RAW | socket.SOCK_CLOEXEC, 0)
    sock.setblocking(False)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _BUFFER_BYTES)
    sock.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPNS, 1)
    sock.bind((port, _EVERY_PROTOCOL))
    return sock


def _stamp(ancillary: list[tuple[int, int, bytes]]) -> int:
    for level, kind, data in ancillary:
        if level == socket.SOL_SOCKET and kind == _SO_TIMESTAMPNS:
            seconds, nanoseconds = _TIMESPEC.unpack(data[: _TIMESPEC.size])
            return int(seconds) * _NS + int(nanoseconds)
    return time.time_ns()
