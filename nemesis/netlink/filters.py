"""Tables of nftables that act on packets between addresses as long as these are in a set.

Every element of a set carries a timeout, after which the kernel takes it out by itself: a fault
does not outlive whoever made it. All that one call changes comes into force at once.
"""

from __future__ import annotations

import ipaddress
import socket
import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from .messages import (
    ACK,
    CREATE,
    DUMP,
    NETLINK_NETFILTER,
    REQUEST,
    Message,
    Netlink,
    attribute,
    attributes,
    long_be,
    nested,
    number_be,
    text,
)

_TABLE: Final = "nemesis"
_SET: Final = "between"
_CHAIN: Final = "packets"
_SUBSYSTEM: Final = 10
_BATCH_BEGIN: Final = 0x10
_BATCH_END: Final = 0x11
_NEW_TABLE: Final = 0
_NEW_CHAIN: Final = 3
_NEW_RULE: Final = 6
_NEW_SET: Final = 9
_NEW_ELEMENT: Final = 12
_GET_ELEMENT: Final = 13
_DELETE_ELEMENT: Final = 14
_SET_TIMEOUT: Final = 0x10
_REGISTER: Final = 8
_NETWORK_HEADER: Final = 1
_TRANSPORT_HEADER: Final = 2
_META_PROTOCOL: Final = 1
_META_L4PROTO: Final = 16
_ADDRESS_BYTES: Final = 4
_SYN_AND_ACK: Final = b"\x12"
_SYN: Final = b"\x02"

Key = tuple[str, ...]
"""IPv4 addresses, as many as the set has in each element."""


@dataclass(frozen=True, slots=True)
class Hit:
    """What an element has met so far."""

    packets: int
    bytes: int


def expression(name: str, *data: bytes) -> bytes:
    """Encode one expression of a rule."""
    return nested(1, text(1, name), nested(2, *data))


def _value(kind: int, value: bytes) -> bytes:
    return nested(kind, attribute(1, value))


def _equals(value: bytes) -> bytes:
    return expression("cmp", number_be(1, _REGISTER), number_be(2, 0), _value(3, value))


def _load(base: int, offset: int, size: int, place: int = 0) -> bytes:
    return expression(
        "payload",
        number_be(1, _REGISTER + place),
        number_be(2, base),
        number_be(3, offset),
        number_be(4, size),
    )


@dataclass(frozen=True, slots=True)
class Kind:
    """What a table does to whom.

    Attributes:
        family: 7 for frames on a bridge, 2 for IPv4.
        hook: 2 for what is forwarded, 1 for what comes in.
        conditions: Expressions that a packet must meet before it is looked up.
        offsets: Where in the IPv4 header the addresses of an element are.
        verdict: The expression that deals with a packet that is found.
    """

    family: int
    hook: int
    conditions: tuple[bytes, ...]
    offsets: tuple[int, ...]
    verdict: bytes


CUT: Final = Kind(
    family=7,
    hook=2,
    conditions=(
        expression("meta", number_be(2, _META_PROTOCOL), number_be(1, _REGISTER)),
        _equals(struct.pack(">H", 0x0800)),
    ),
    offsets=(12, 16),
    verdict=expression("immediate", number_be(1, 0), nested(2, nested(2, number_be(1, 0)))),
)
"""Drops what a bridge forwards from one address to another: elements are (from, to)."""
REFUSE: Final = Kind(
    family=2,
    hook=1,
    conditions=(
        expression("meta", number_be(2, _META_L4PROTO), number_be(1, _REGISTER)),
        _equals(bytes([socket.IPPROTO_TCP])),
        _load(_TRANSPORT_HEADER, 13, 1),
        expression(
            "bitwise",
            number_be(1, _REGISTER),
            number_be(2, _REGISTER),
            number_be(3, 1),
            _value(4, _SYN_AND_ACK),
            _value(5, b"\0"),
        ),
        _equals(_SYN),
    ),
    offsets=(12,),
    verdict=expression("reject", number_be(1, 1), attribute(2, b"\0")),
)
"""Answers new TCP connections to this end with a reset: elements are (from,)."""


class Filters:
    """One table, its set and its rule, in the network namespace of the calling thread.

    Args:
        kind: What it does.

    Raises:
        OSError: From this and each method: the kernel refuses.
    """

    def __init__(self, kind: Kind = CUT) -> None:
        self._kind = kind
        self._netlink = Netlink(NETLINK_NETFILTER)
        loads = [
            _load(_NETWORK_HEADER, offset, _ADDRESS_BYTES, place)
            for place, offset in enumerate(kind.offsets)
        ]
        lookup = expression("lookup", text(1, _SET), number_be(2, _REGISTER), number_be(4, 1))
        rule = nested(4, *kind.conditions, *loads, lookup, kind.verdict)
        hook = nested(4, number_be(1, kind.hook), number_be(2, 0))
        self._commit(
            [
                (_NEW_TABLE, text(1, _TABLE)),
                (_NEW_CHAIN, text(1, _TABLE) + text(3, _CHAIN) + hook + text(7, "filter")),
                (_NEW_SET, self._set()),
                (_NEW_RULE, text(1, _TABLE) + text(2, _CHAIN) + rule),
            ]
        )

    def _set(self) -> bytes:
        return (
            text(1, _TABLE)
            + text(2, _SET)
            + number_be(3, _SET_TIMEOUT)
            + number_be(4, 0)
            + number_be(5, _ADDRESS_BYTES * len(self._kind.offsets))
            + number_be(10, 1)
            + nested(17, text(1, "counter"), nested(2))
        )

    def close(self) -> None:
        """Close the socket; the table stays."""
        self._netlink.close()

    def change(self, new: Iterable[Key], gone: Iterable[Key], timeout_s: float) -> None:
        """Put elements into the set and take others out, all at once.

        Args:
            new: Not in it yet.
            gone: In it now.
            timeout_s: The kernel takes the new ones out after so long.
        """
        changes = []
        if taken := [_value(1, _packed(key)) for key in gone]:
            changes.append((_DELETE_ELEMENT, self._elements(taken)))
        timeout = long_be(4, round(timeout_s * 1000))
        if put := [_value(1, _packed(key)) + timeout for key in new]:
            changes.append((_NEW_ELEMENT, self._elements(put)))
        if changes:
            self._commit(changes)

    def _elements(self, elements: Iterable[bytes]) -> bytes:
        listed = nested(3, *(nested(1, each) for each in elements))
        return text(1, _TABLE) + text(2, _SET) + listed

    def counts(self) -> Mapping[Key, Hit]:
        """Return what each element that is in the set has met."""
        body = _generic(self._kind.family) + text(1, _TABLE) + text(2, _SET)
        asked = Message(_SUBSYSTEM << 8 | _GET_ELEMENT, REQUEST | DUMP, body)
        found: dict[Key, Hit] = {}
        for answer in self._netlink.ask([asked]):
            for kind, listed in attributes(answer.body[4:]):
                if kind == 3:
                    found.update(_read_element(element) for _, element in attributes(listed))
        return found

    def _commit(self, changes: Iterable[tuple[int, bytes]]) -> None:
        batch = _generic(socket.AF_UNSPEC, _SUBSYSTEM)
        messages = [Message(_BATCH_BEGIN, REQUEST, batch)]
        for kind, body in changes:
            flags = REQUEST | ACK if kind == _DELETE_ELEMENT else REQUEST | ACK | CREATE
            whole = _generic(self._kind.family) + body
            messages.append(Message(_SUBSYSTEM << 8 | kind, flags, whole))
        messages.append(Message(_BATCH_END, REQUEST, batch))
        self._netlink.ask(messages)


def _packed(key: Key) -> bytes:
    return b"".join(ipaddress.IPv4Address(address).packed for address in key)


def _generic(family: int, resource: int = 0) -> bytes:
    return struct.pack(">BBH", family, 0, resource)


def _read_element(data: bytes) -> tuple[Key, Hit]:
    key, packets, size = b"", 0, 0
    for kind, value in attributes(data):
        if kind == 1:
            key = next(each for inner, each in attributes(value) if inner == 1)
        elif kind == 7:
            fields = dict(attributes(dict(attributes(value)).get(2, b"")))
            size = int.from_bytes(fields.get(1, b""), "big")
            packets = int.from_bytes(fields.get(2, b""), "big")
    parts = [key[at : at + _ADDRESS_BYTES] for at in range(0, len(key), _ADDRESS_BYTES)]
    return tuple(str(ipaddress.IPv4Address(part)) for part in parts), Hit(packets, size)
