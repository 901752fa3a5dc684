"""What a request that a leader must answer asks for, where pops differ from all others."""

from __future__ import annotations

import dataclasses

import msgspec

from ..broker.replies import PopReply
from ..broker.ring_actions import PopRing
from ..http.render_ephemeral import popped
from ..http.routes import (
    Answer,
    PopRequest,
    ReadRequest,
    ReportRequest,
    RingRequest,
    Write,
    empty_pop_answer,
    render,
)

LeaderRequest = Write | PopRequest | ReadRequest | RingRequest | ReportRequest


def is_pop(routed: LeaderRequest) -> bool:
    """Whether an empty answer is an answer."""
    return isinstance(routed, PopRequest) or (
        isinstance(routed, RingRequest) and isinstance(routed.action, PopRing)
    )


def nothing(routed: LeaderRequest) -> Answer:
    """What a pop is told that found nothing.

    Only a leader knows whether a group conflates; a consumer that asks for it and gets no message
    may be told so by anybody.
    """
    if isinstance(routed, RingRequest) and isinstance(routed.action, PopRing):
        return popped(routed.action.queue, [])
    if isinstance(routed, PopRequest) and routed.command.conflation:
        command = routed.command
        return render(routed, PopReply(command.queue, command.group, "", (), conflates=True))
    return empty_pop_answer()


def asked_by(routed: LeaderRequest, asking: str, trial: int) -> LeaderRequest:
    """A pop that says whose it is, and how often it was asked for; anything else as it is."""
    if not isinstance(routed, PopRequest):
        return routed
    command = msgspec.structs.replace(routed.command, asking=asking, trial=trial)
    return dataclasses.replace(routed, command=command)
