"""The peer protocol as layers of scapy: a frame, and in it one message.

Importing this takes scapy's time, half a second and more. `bind(port)` has scapy take what goes to
a port for frames.
"""

from __future__ import annotations

import zlib
from typing import Any, ClassVar, Final

import msgspec
from scapy.fields import Field, IntField, StrField, XIntField
from scapy.layers.inet import TCP
from scapy.packet import Packet, Raw, bind_layers

from .unpacking import UnpackError, Value, unpack, unpack_array_size

CHALLENGE_BYTES: Final = 32

MESSAGES: Final[dict[str, tuple[str, tuple[str, ...]]]] = {
    "ae": ("appends", ("term", "prev_index", "prev_term", "commit_index", "round", "entries")),
    "ar": (
        "append-answers",
        ("term", "success", "match_index", "round", "conflict_term", "conflict_index"),
    ),
    "rv": (
        "vote-requests",
        ("term", "last_log_index", "last_log_term", "pre_vote", "transfer"),
    ),
    "vr": ("votes", ("term", "granted", "pre_vote")),
    "tn": ("transfers", ("term",)),
    "forward": (
        "forward",
        ("correlation", "method", "target", "headers", "body", "request_id", "deadline_ms"),
    ),
    "reply": ("reply", ("correlation", "status", "content_type", "headers", "body", "lease")),
    "again": ("again", ("correlation", "handed_over")),
    "withdraw": ("withdraw", ("correlation", "client_gone")),
    "undelivered": ("undelivered", ("lease",)),
    "report": ("report", ("disk_full", "broker_us", "role", "term", "commit", "applied")),
    "offer": ("snapshot-offer", ("index", "term", "size", "sha256", "chunk_bytes")),
    "have": ("snapshot-have", ("offset",)),
    "chunk": ("snapshot-chunk", ("offset", "data", "sha256")),
    "got": ("snapshot-got", ("offset",)),
    "resting": ("snapshot-resting", ()),
    "declined": ("snapshot-declined", ("reason",)),
}
"""By tag: what a message is called, and its fields; one may have more behind them."""


class ArraySizeField(Field[int, bytes]):
    """The head of a MessagePack array."""

    def addfield(self, pkt: Packet | None, s: bytes, val: int | None) -> bytes:
        """Append it; arrays of messages are short."""
        del pkt
        return s + bytes([0x90 | (val or 0)])

    def getfield(self, pkt: Packet, s: bytes) -> tuple[bytes, int]:
        """Take it off the front."""
        del pkt
        size, rest = unpack_array_size(s)
        return rest, size


class ValueField(Field[Value, bytes]):
    """One MessagePack value."""

    def addfield(self, pkt: Packet | None, s: bytes, val: Value) -> bytes:
        """Append it."""
        del pkt
        return s + msgspec.msgpack.encode(val)

    def getfield(self, pkt: Packet, s: bytes) -> tuple[bytes, Value]:
        """Take it off the front; None if nothing is there."""
        del pkt
        if not s:
            return s, None
        value, rest = unpack(s)
        return rest, value

    def i2repr(self, pkt: Packet | None, x: Value) -> str:
        """Show it, bytes by their number."""
        del pkt
        return f"{len(x)} bytes" if isinstance(x, bytes) else repr(x)


class Message(Packet):
    """A message of nodes; its subclasses are in `LAYERS`."""

    name = "message"
    told: ClassVar[tuple[str, ...]] = ()

    def values(self) -> dict[str, Value]:
        """Its fields by name."""
        return {name: getattr(self, name) for name in self.told}


class Greeting(Packet):
    """What a dialler or a listener says of itself: a MessagePack map, kept as it is."""

    name = "greeting"
    fields_desc: ClassVar[Any] = [ValueField("said", {})]


class Challenge(Packet):
    """The listener's random bytes."""

    name = "challenge"
    fields_desc: ClassVar[Any] = [StrField("nonce", b"")]


def _layer(tag: str, name: str, fields: tuple[str, ...]) -> type[Message]:
    described = [ArraySizeField("array", len(fields) + 1), ValueField("tag", tag)]
    described += [ValueField(field, None) for field in fields]
    made: type[Message] = type(
        "".join(word.capitalize() for word in name.split("-")),
        (Message,),
        {"name": name, "told": fields, "fields_desc": described},
    )
    return made


LAYERS: Final[dict[str, type[Message]]] = {
    tag: _layer(tag, name, fields) for tag, (name, fields) in MESSAGES.items()
}


class PeerFrame(Packet):
    """A frame: the content's length, the checksum of that, the content's, and the content."""

    name = "peer frame"
    fields_desc: ClassVar[Any] = [
        IntField("length", None),
        XIntField("length_check", None),
        XIntField("check", None),
    ]

    def post_build(self, pkt: bytes, pay: bytes) -> bytes:
        """Fill in what was left out."""
        del pkt
        length = len(pay) if self.length is None else self.length
        size = length.to_bytes(4, "big")
        length_check = zlib.crc32(size) if self.length_check is None else self.length_check
        check = zlib.crc32(pay) if self.check is None else self.check
        return size + length_check.to_bytes(4, "big") + check.to_bytes(4, "big") + pay

    def extract_padding(self, s: bytes) -> tuple[bytes, bytes]:
        """Tell the content from what follows it."""
        return s[: self.length], s[self.length :]

    def guess_payload_class(self, payload: bytes) -> type[Packet]:
        """Tell what the content is by its first bytes."""
        if len(payload) == CHALLENGE_BYTES == self.length:
            return Challenge
        try:
            if payload[0] & 0xF0 == 0x80:
                return Greeting
            _, rest = unpack_array_size(payload)
            tag, _ = unpack(rest)
        except (UnpackError, IndexError):
            return Raw
        return LAYERS.get(tag, Raw) if isinstance(tag, str) else Raw


def bind(port: int) -> None:
    """Have scapy take what goes to or comes from a port for frames."""
    bind_layers(TCP, PeerFrame, dport=port)
    bind_layers(TCP, PeerFrame, sport=port)


def told_of(layer: Packet) -> tuple[str, dict[str, Value]]:
    """Return what a frame's content is called, and its fields by name."""
    content = layer.payload
    if isinstance(content, Message):
        return str(content.name), content.values()
    if isinstance(content, Greeting):
        said = content.said if isinstance(content.said, dict) else {}
        return str(said.get("type", content.name)), said
    if isinstance(content, Challenge):
        return "challenge", {}
    return "unknown", {}
