"""What the switch reads in a frame, and what it may change unseen by TCP."""

from __future__ import annotations

import random
import socket
import struct

from hypothesis import given
from hypothesis import strategies as st

from atleastonce.nemesis.switch.frames import corrupted, pair_of, payload_of

NETWORK = bytes((10, 77, 0))
ETHERNET = bytes.fromhex("020000000002020000000001") + b"\x08\x00"


def checksum(data: bytes) -> int:
    """The Internet's checksum (RFC 1071)."""
    total: int = sum(struct.unpack(f">{(len(data) + 1) // 2}H", data + bytes(len(data) % 2)))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def pseudo(frame: bytes) -> bytes:
    """What TCP adds up beside its segment."""
    segment = frame[34:]
    return frame[26:34] + struct.pack(">BBH", 0, socket.IPPROTO_TCP, len(segment)) + segment


def tcp(payload: bytes, options: int = 0, target: str = "10.77.0.2") -> bytes:
    """A frame with a TCP segment whose checksum is right."""
    addresses = socket.inet_aton("10.77.0.1") + socket.inet_aton(target)
    size = 40 + options + len(payload)
    ip = struct.pack(">BBHHHBBH", 0x45, 0, size, 0, 0, 64, socket.IPPROTO_TCP, 0) + addresses
    header = struct.pack(">HHIIBBHHH", 1, 2, 3, 4, (5 + options // 4) << 4, 16, 100, 0, 0)
    frame = ETHERNET + ip + header + bytes(options) + payload
    right = checksum(pseudo(frame))
    return frame[:50] + struct.pack(">H", right) + frame[52:]


def test_ends_are_read_from_packets_of_the_network_alone() -> None:
    assert pair_of(tcp(b"x"), NETWORK) == (1, 2)
    assert pair_of(tcp(b"x", target="10.78.0.2"), NETWORK) is None
    assert pair_of(tcp(b"x"), bytes((10, 78, 0))) is None
    assert pair_of(tcp(b"x")[:20], NETWORK) is None
    assert pair_of(ETHERNET[:12] + b"\x08\x06" + bytes(40), NETWORK) is None


@given(st.binary(max_size=60), st.sampled_from([0, 4, 12, 40]))
def test_payload_lies_behind_all_options_and_before_the_padding(data: bytes, options: int) -> None:
    frame = tcp(data, options) + bytes(6)
    begin, end = payload_of(frame)

    assert frame[begin:end] == data


@given(st.binary(min_size=1, max_size=200), st.integers(0, 1 << 32), st.sampled_from([0, 12]))
def test_corrupted_frame_has_another_payload_and_a_right_checksum(
    data: bytes, seed: int, options: int
) -> None:
    frame = tcp(data, options)
    changed = corrupted(frame, random.Random(seed))

    assert checksum(pseudo(frame)) == 0
    if changed is None:
        words = {data[at : at + 2] for at in range(0, len(data) - 1, 2)}
        assert len(words) < 2 or len(data) > 4
        return
    assert changed != frame
    assert len(changed) == len(frame)
    assert checksum(pseudo(changed)) == 0
    assert sorted(changed) == sorted(frame)
    begin, end = payload_of(frame)
    assert changed[:begin] + changed[end:] == frame[:begin] + frame[end:]


@given(st.binary(max_size=100))
def test_noise_is_no_packet_of_anybody_and_is_left_as_it_is(noise: bytes) -> None:
    begin, end = payload_of(noise)

    assert 0 <= begin <= end <= len(noise)
    changed = corrupted(noise, random.Random(1))
    assert changed is None or sorted(changed) == sorted(noise)
