"""Captures what goes through the proxy, as if it had been packets.

A proxy sees streams. Each chunk gets made-up headers of Ethernet, IPv4 and TCP, so that the usual
tools read it; the files call themselves synthetic. A link is two interfaces: `n1>n2 sent` has what
left n1, `n1>n2 delivered` what was handed to n2.
"""

from __future__ import annotations

import struct
import time
from pathlib import Path
from typing import Final

from ...histories.pcapng import PcapngRing
from ..links import Pair
from .control import CapturePlan, Way

COMMENT: Final = "synthetic: chunks of streams under made-up headers; checksums of TCP are left out"
SENT: Final = "sent"
DELIVERED: Final = "delivered"
_STAGES: Final = (SENT, DELIVERED)
_CHUNK_BYTES: Final = 60_000
_NETWORK: Final = b"\x0a\x4d\x00"
_MAC: Final = b"\x02\x00\x00\x00\x00"
_ETHERNET: Final = b"\x08\x00"
_IP: Final = struct.Struct(">BBHHHBBH4s4s")
_TCP: Final = struct.Struct(">HHIIBBHHH")
_FIN, _SYN, _RST, _PSH, _ACK = 1, 2, 4, 8, 16


def frame_of(
    source: tuple[int, int], target: tuple[int, int], seq: int, ack: int, flags: int, data: bytes
) -> bytes:
    """Return a frame with made-up headers.

    Args:
        source: Number of the end, and its port.
        target: Likewise.
        seq: Sequence number of the first byte.
        ack: The other direction's next one.
        flags: Of TCP.
        data: At most 65,495 bytes.
    """
    sender, receiver = _NETWORK + bytes([source[0]]), _NETWORK + bytes([target[0]])
    size = _IP.size + _TCP.size + len(data)
    fields = (0x45, 0, size, 0, 0x4000, 64, 6)
    total = sum(struct.unpack(">10H", _IP.pack(*fields, 0, sender, receiver)))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    ip = _IP.pack(*fields, ~total & 0xFFFF, sender, receiver)
    words = (seq & 0xFFFFFFFF, ack & 0xFFFFFFFF, 0x50, flags, 0xFFFF, 0, 0)
    tcp = _TCP.pack(source[1], target[1], *words)
    ethernet = _MAC + bytes([target[0]]) + _MAC + bytes([source[0]]) + _ETHERNET
    return ethernet + ip + tcp + data


class Capture:
    """Writes what all connections carry.

    Raises:
        OSError: The disk refuses.
    """

    def __init__(self, plan: CapturePlan, ways: list[Way]) -> None:
        ends = dict.fromkeys(end for way in ways for end in (way.source, way.target))
        pairs = dict.fromkeys(
            pair for way in ways for pair in ((way.source, way.target), (way.target, way.source))
        )
        names = [f"{source}>{target} {stage}" for source, target in pairs for stage in _STAGES]
        self.ends = {end: number for number, end in enumerate(ends, 1)}
        self._interfaces = {name: number for number, name in enumerate(names)}
        self._ring = PcapngRing(
            Path(plan.folder), names, COMMENT, plan.segment_bytes, plan.segments
        )

    def tap(self, way: Way, port: int) -> CaptureTap:
        """Make what hears of a new connection, dialled from a port."""
        return CaptureTap(self, way, port)

    def write(self, pair: Pair, stage: str, frame: bytes, verdict: str, faults: str) -> None:
        """Append one frame, seen now."""
        comment = f"verdict={verdict} fault={faults or '-'} mono={time.monotonic_ns()}"
        interface = self._interfaces[f"{pair[0]}>{pair[1]} {stage}"]
        self._ring.write(interface, time.time_ns(), frame, comment)

    def flush(self) -> None:
        """Have everything in the file."""
        self._ring.flush()

    def close(self) -> None:
        """Write the rest."""
        self._ring.close()


class CaptureTap:
    """Hears of one connection; see `tap.Tap`."""

    def __init__(self, capture: Capture, way: Way, port: int) -> None:
        self._capture = capture
        self._way = way
        self._ends = {
            way.source: (capture.ends[way.source], port),
            way.target: (capture.ends[way.target], way.dial[1]),
        }
        self._next = {(pair, stage): 1 for pair in self._pairs() for stage in _STAGES}

    def _pairs(self) -> tuple[Pair, Pair]:
        way = self._way
        return (way.source, way.target), (way.target, way.source)

    def opened(self) -> None:
        """See `Tap`."""
        there, back = self._pairs()
        for pair, flags in ((there, _SYN), (back, _SYN | _ACK), (there, _ACK)):
            for stage in _STAGES:
                self._write(pair, stage, flags, b"", "pass", "", seq=0 if flags & _SYN else 1)

    def sent(self, pair: Pair, data: bytes, verdict: str, faults: str) -> None:
        """See `Tap`."""
        self._chunks(pair, SENT, data, verdict, faults)

    def delivered(self, pair: Pair, data: bytes, faults: str) -> None:
        """See `Tap`."""
        if data:
            self._chunks(pair, DELIVERED, data, "pass", faults)

    def ended(self, pair: Pair, how: str, faults: str) -> None:
        """See `Tap`."""
        flags = (_FIN if how == "fin" else _RST) | _ACK
        for stage in _STAGES:
            self._write(pair, stage, flags, b"", "pass", faults)

    def _chunks(self, pair: Pair, stage: str, data: bytes, verdict: str, faults: str) -> None:
        for at in range(0, len(data), _CHUNK_BYTES):
            piece = data[at : at + _CHUNK_BYTES]
            self._write(pair, stage, _PSH | _ACK, piece, verdict, faults)
            self._next[pair, stage] += len(piece)

    def _write(
        self,
        pair: Pair,
        stage: str,
        flags: int,
        data: bytes,
        verdict: str,
        faults: str,
        seq: int | None = None,
    ) -> None:
        source, target = pair
        ack = self._next[(target, source), stage] if flags & _ACK else 0
        frame = frame_of(
            self._ends[source],
            self._ends[target],
            self._next[pair, stage] if seq is None else seq,
            ack,
            flags,
            data,
        )
        self._capture.write(pair, stage, frame, verdict, faults)
