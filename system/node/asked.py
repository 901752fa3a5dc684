"""How pops differ from all else that a leader must answer, also where no leader can be asked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, TypeGuard

import msgspec

from ..broker.replies import PopReply
from ..broker.ring_actions import PopRing
from ..http.render_ephemeral import popped
from ..http.routes import (
    Answer,
    MembersRequest,
    PopRequest,
    ReadRequest,
    ReportRequest,
    RingRequest,
    Write,
    render,
)

DEADLINE_MS_MAX: Final = 60_000

LeaderRequest = Write | PopRequest | ReadRequest | RingRequest | ReportRequest | MembersRequest


def is_pop(routed: LeaderRequest) -> TypeGuard[PopRequest | RingRequest]:
    """Whether an empty answer is an answer."""
    return isinstance(routed, PopRequest) or (
        isinstance(routed, RingRequest) and isinstance(routed.action, PopRing)
    )


def nothing(routed: PopRequest | RingRequest) -> Answer:
    """The answer of a pop that found nothing.

    Only a leader knows whether a group conflates; a consumer that asks for it and gets no message
    may be told so by anybody.
    """
    if isinstance(routed, PopRequest):
        command = routed.command
        conflates = command.conflation is True
        return render(routed, PopReply(command.queue, command.group, "", (), None, conflates))
    assert isinstance(routed.action, PopRing), f"{type(routed.action).__name__} is no pop"
    return popped(routed.action.queue, [])


def asked_by(routed: LeaderRequest, asking: str, trial: int) -> LeaderRequest:
    """A pop that says whose it is, and how often it was asked for; anything else as it is."""
    if not isinstance(routed, PopRequest):
        return routed
    command = msgspec.structs.replace(routed.command, asking=asking, trial=trial)
    return PopRequest(command, routed.wait_ms)


class BadHeaderError(ValueError):
    """A header of ours holds what it cannot; the message names both."""


def deadline_ms_of(headers: Mapping[str, str], default_ms: int) -> int:
    """How long the client waits.

    Raises:
        BadHeaderError: `x-deadline-ms` holds something else.
    """
    given = headers.get("x-deadline-ms")
    if given is None:
        return default_ms
    if given.isascii() and given.isdigit() and 0 < int(given) <= DEADLINE_MS_MAX:
        return int(given)
    raise BadHeaderError(f"x-deadline-ms is {given!r}; 1 to {DEADLINE_MS_MAX} are allowed")
