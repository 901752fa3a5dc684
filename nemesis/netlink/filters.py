"""A table of nftables on a bridge: frames between two addresses are dropped while a pair is in it.

Every element of the set carries a timeout, after which the kernel takes it out by itself: a cut
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

TABLE: Final = "nemesis"
SET: Final = "cut"
_CHAIN: Final = "links"
_FAMILY_BRIDGE: Final = 7
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
_HOOK_FORWARD: Final = 2
_SET_TIMEOUT: Final = 0x10
_KEY_BYTES: Final = 8
_REGISTER: Final = 8
_ETHERTYPE_IP: Final = 0x0800

Pair = tuple[str, str]
"""IPv4 addresses: from, to."""


@dataclass(frozen=True, slots=True)
class Dropped:
    """What a cut has stopped so far."""

    packets: int
    bytes: int


def _key(pair: Pair) -> bytes:
    return b"".join(ipaddress.IPv4Address(address).packed for address in pair)


def _expression(name: str, *data: bytes) -> bytes:
    return nested(1, text(1, name), nested(2, *data))


def _value(kind: int, value: bytes) -> bytes:
    return nested(kind, attribute(1, value))


class Filters:
    """The filters of the network namespace of the calling thread.

    Raises:
        OSError: From each method: the kernel refuses.
    """

    def __init__(self) -> None:
        self._netlink = Netlink(NETLINK_NETFILTER)

    def close(self) -> None:
        """Close the socket; the filters stay."""
        self._netlink.close()

    def install(self) -> None:
        """Make the table, its set and the rule that drops what lies in it."""
        address_from, address_to = 12, 16
        loads = [
            _expression(
                "payload",
                number_be(1, _REGISTER + place),
                number_be(2, 1),
                number_be(3, offset),
                number_be(4, 4),
            )
            for place, offset in enumerate((address_from, address_to))
        ]
        rule = nested(
            4,
            _expression("meta", number_be(2, 1), number_be(1, _REGISTER)),
            _expression(
                "cmp",
                number_be(1, _REGISTER),
                number_be(2, 0),
                _value(3, struct.pack(">H", _ETHERTYPE_IP)),
            ),
            *loads,
            _expression("lookup", text(1, SET), number_be(2, _REGISTER), number_be(4, 1)),
            _expression("immediate", number_be(1, 0), nested(2, nested(2, number_be(1, 0)))),
        )
        hook = nested(4, number_be(1, _HOOK_FORWARD), number_be(2, 0))
        self._commit(
            [
                (_NEW_TABLE, text(1, TABLE)),
                (_NEW_CHAIN, text(1, TABLE) + text(3, _CHAIN) + hook + text(7, "filter")),
                (_NEW_SET, self._set()),
                (_NEW_RULE, text(1, TABLE) + text(2, _CHAIN) + rule),
            ]
        )

    def _set(self) -> bytes:
        counter = nested(17, text(1, "counter"), nested(2))
        return (
            text(1, TABLE)
            + text(2, SET)
            + number_be(3, _SET_TIMEOUT)
            + number_be(4, 0)
            + number_be(5, _KEY_BYTES)
            + number_be(10, 1)
            + counter
        )

    def change(self, cut: Iterable[Pair], joined: Iterable[Pair], timeout_s: float) -> None:
        """Cut some pairs and join others, all at once.

        Args:
            cut: Not cut yet.
            joined: Cut now; one whose time has run out is not.
            timeout_s: The kernel joins them again after so long.
        """
        changes = []
        if gone := [_value(1, _key(pair)) for pair in joined]:
            changes.append((_DELETE_ELEMENT, self._elements(gone)))
        timeout = long_be(4, round(timeout_s * 1000))
        if new := [_value(1, _key(pair)) + timeout for pair in cut]:
            changes.append((_NEW_ELEMENT, self._elements(new)))
        if changes:
            self._commit(changes)

    def _elements(self, elements: Iterable[bytes]) -> bytes:
        return text(1, TABLE) + text(2, SET) + nested(3, *(nested(1, each) for each in elements))

    def counts(self) -> Mapping[Pair, Dropped]:
        """Return what each pair that is cut now has lost."""
        body = _generic(_FAMILY_BRIDGE) + text(1, TABLE) + text(2, SET)
        found: dict[Pair, Dropped] = {}
        for answer in self._netlink.ask(
            [Message(_SUBSYSTEM << 8 | _GET_ELEMENT, REQUEST | DUMP, body)]
        ):
            for kind, listed in attributes(answer.body[4:]):
                if kind == 3:
                    for _, element in attributes(listed):
                        pair, dropped = _read_element(element)
                        found[pair] = dropped
        return found

    def _commit(self, changes: Iterable[tuple[int, bytes]]) -> None:
        batch = _generic(socket.AF_UNSPEC, _SUBSYSTEM)
        messages = [Message(_BATCH_BEGIN, REQUEST, batch)]
        for kind, body in changes:
            messages.append(
                Message(
                    _SUBSYSTEM << 8 | kind,
                    REQUEST | ACK | CREATE if kind != _DELETE_ELEMENT else REQUEST | ACK,
                    _generic(_FAMILY_BRIDGE) + body,
                )
            )
        messages.append(Message(_BATCH_END, REQUEST, batch))
        self._netlink.ask(messages)


def _generic(family: int, resource: int = 0) -> bytes:
    return struct.pack(">BBH", family, 0, resource)


def _read_element(data: bytes) -> tuple[Pair, Dropped]:
    key, packets, size = bytes(_KEY_BYTES), 0, 0
    for kind, value in attributes(data):
        if kind == 1:
            key = next(each for inner, each in attributes(value) if inner == 1)
        elif kind == 7:
            fields = dict(attributes(dict(attributes(value)).get(2, b"")))
            size = int.from_bytes(fields.get(1, b""), "big")
            packets = int.from_bytes(fields.get(2, b""), "big")
    pair = str(ipaddress.IPv4Address(key[:4])), str(ipaddress.IPv4Address(key[4:]))
    return pair, Dropped(packets, size)
