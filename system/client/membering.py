"""The members of a cluster, listed and changed, as calls."""

from __future__ import annotations

from typing import Final, Literal
from urllib.parse import quote

import msgspec

from .calls import Call
from .errors import CODE_MALFORMED, BrokerError
from .reading import refusal
from .wire import Response

MemberAction = Literal["add", "promote", "remove", "replace"]

_PATH: Final = "/api/v1/cluster/members"
_UNKNOWN: Final = 504
"""A change that may still be made; another try might find it refused for being made already."""


class MemberSeen(msgspec.Struct, frozen=True):
    """A member, as the leader sees it.

    Attributes:
        node: Its name.
        role: `voter` or `learner`.
        leads: Whether it is the leader.
        lag: Entries that it lacks; None until that is known.
        replaced: Whether a node of that name answers whose data folder is another one.
    """

    node: str
    role: str
    leads: bool
    lag: int | None = None
    replaced: bool = False


class _Members(msgspec.Struct, frozen=True):
    members: tuple[MemberSeen, ...]


def members() -> Call[tuple[MemberSeen, ...]]:
    """List the members."""
    return Call("members", "GET", _PATH, b"", _read)


def change_member(action: MemberAction, node: str) -> Call[tuple[MemberSeen, ...]]:
    """Change one member; answers with all of them. Refusals are `BrokerError` 409 with a code."""
    named = f"{_PATH}/{quote(node, safe='')}"
    finals = (_UNKNOWN,)
    if action == "add":
        body = msgspec.json.encode({"node": node})
        return Call("add member", "POST", _PATH, body, _read, finals=finals)
    if action == "remove":
        return Call("remove member", "DELETE", named, b"", _read, finals=finals)
    return Call(f"{action} member", "POST", f"{named}/{action}", b"", _read, finals=finals)


def _read(response: Response) -> tuple[MemberSeen, ...]:
    if response.status >= 300:
        raise refusal(response, definite=response.status != _UNKNOWN)
    try:
        return msgspec.json.decode(response.body, type=_Members).members
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise BrokerError(response.status, CODE_MALFORMED, str(error), definite=False) from error
