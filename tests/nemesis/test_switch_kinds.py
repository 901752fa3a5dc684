"""Which frames a rule of the switch is for."""

from __future__ import annotations

import random
import socket
import struct

import msgspec
import pytest

from atleastonce.nemesis.switch.control import LinkRule, Order
from atleastonce.nemesis.switch.kinds import ALL, CHOICES, PAYLOAD, is_meant
from atleastonce.nemesis.switch.treatment import PacketRule, Treatment
from atleastonce.system.node.frames import frame as framed
from atleastonce.system.raft.messages import AppendReply, VoteReply, encode_message

ANSWER = framed(encode_message(AppendReply(3, True, 8, 9)))
VOTE = framed(encode_message(VoteReply(4, True, False)))


def segment(payload: bytes, protocol: int = socket.IPPROTO_TCP) -> bytes:
    """A frame with a TCP segment; nobody here looks at its checksums."""
    addresses = socket.inet_aton("10.77.0.1") + socket.inet_aton("10.77.0.2")
    ip = struct.pack(">BBHHHBBH", 0x45, 0, 40 + len(payload), 0, 0, 64, protocol, 0) + addresses
    return (
        bytes(12)
        + b"\x08\x00"
        + ip
        + struct.pack(">HHIIBBHHH", 1, 2, 3, 4, 80, 16, 9, 0, 0)
        + payload
    )


@pytest.mark.parametrize(
    ("frame", "meant"),
    [
        (segment(b""), {ALL}),
        (segment(b"GET / HTTP/1.1\r\n"), {ALL, PAYLOAD}),
        (segment(ANSWER), {ALL, PAYLOAD, "append-answers"}),
        (segment(VOTE), {ALL, PAYLOAD, "votes"}),
        (segment(VOTE + ANSWER + ANSWER), {ALL, PAYLOAD, "votes", "append-answers"}),
        (segment(ANSWER[:20]), {ALL, PAYLOAD, "append-answers"}),
        (segment(VOTE + ANSWER[:11]), {ALL, PAYLOAD, "votes"}),
        (segment(ANSWER[5:] + ANSWER), {ALL, PAYLOAD}),
        (segment(ANSWER, socket.IPPROTO_UDP), {ALL}),
        (segment(b"\xff" * 64), {ALL, PAYLOAD}),
        (b"\xff" * 20, {ALL}),
    ],
)
def test_a_rule_is_for_frames_that_hold_what_it_names(frame: bytes, meant: set[str]) -> None:
    assert {only for only in CHOICES if is_meant(frame, only)} == meant


def test_padding_behind_a_short_packet_is_no_payload() -> None:
    assert not is_meant(segment(b"") + bytes(6), PAYLOAD)


def test_a_treatment_knows_the_frames_of_its_rule() -> None:
    treatment = Treatment(PacketRule(drop=True, only=PAYLOAD), random.Random(1))
    assert treatment.is_for(segment(b"x"))
    assert not treatment.is_for(segment(b""))
    assert treatment.treat(0.0, segment(b"x")) == []
    assert treatment.counts.dropped == 1


def test_orders_carry_which_frames_a_rule_is_for() -> None:
    order = Order("rules", [LinkRule(1, 2, PacketRule(drop=True, only="votes"))])
    assert msgspec.json.decode(msgspec.json.encode(order), type=Order) == order
