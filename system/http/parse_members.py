"""The routes that show and change the membership."""

from __future__ import annotations

import ipaddress
import re
from typing import Final

import msgspec

from .answer import bad_request
from .incoming import Incoming, decode
from .member_bodies import NAME_PATTERN, AddForm, VotersForm
from .request import MembersRequest

_ADD: Final = msgspec.json.Decoder(AddForm)
_VOTERS: Final = msgspec.json.Decoder(VotersForm)
_NAME: Final = re.compile(NAME_PATTERN)


def show(_: Incoming) -> MembersRequest:
    """`GET /api/v1/cluster/members`."""
    return MembersRequest("show")


def add(incoming: Incoming) -> MembersRequest:
    """`POST /api/v1/cluster/members`."""
    form = decode(_ADD, incoming.body)
    address = None if form.address is None else _address(form.address)
    return MembersRequest("add", form.node, address)


def choose(incoming: Incoming) -> MembersRequest:
    """`PUT /api/v1/cluster/members`."""
    voters = decode(_VOTERS, incoming.body).voters
    if not voters or len(set(voters)) != len(voters):
        raise bad_request("voters must name at least one node, and each once")
    return MembersRequest("choose", voters=tuple(sorted(voters)))


def promote(incoming: Incoming) -> MembersRequest:
    """`POST /api/v1/cluster/members/{node}/promote`."""
    return MembersRequest("promote", _node(incoming))


def replace(incoming: Incoming) -> MembersRequest:
    """`POST /api/v1/cluster/members/{node}/replace`."""
    return MembersRequest("replace", _node(incoming))


def remove(incoming: Incoming) -> MembersRequest:
    """`DELETE /api/v1/cluster/members/{node}`."""
    return MembersRequest("remove", _node(incoming))


def _node(incoming: Incoming) -> str:
    name = incoming.part(5)
    if not _NAME.match(name):
        raise bad_request(f"{name[:80]!r} cannot be the name of a node")
    return name


def _address(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    try:
        host = str(ipaddress.ip_address(host.strip("[]")))
        number = int(port) if port.isascii() and port.isdigit() else 0
    except ValueError:
        number = 0
    if not 1 <= number <= 65535:
        raise bad_request(f"address {text[:80]!r} is not of the form IP:PORT")
    return host, number
