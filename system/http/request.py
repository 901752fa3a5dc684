"""What a request asks for, as a value."""

from __future__ import annotations

from typing import Literal

import msgspec

from ..broker.commands import Command, Pop
from ..broker.queries import Fetch, Query
from ..broker.ring_actions import RingAction


class Write(msgspec.Struct, frozen=True, gc=False):
    """A command for the log.

    Attributes:
        command: The command.
        shape: How `render` shapes the reply where one command serves two routes.
    """

    command: Command
    shape: str = ""


class PopRequest(msgspec.Struct, frozen=True, gc=False):
    """A pop, which enters the log only when `Machine.can_pop` says so.

    Attributes:
        command: The command.
        wait_ms: How long the client waits for messages; 0 answers at once.
    """

    command: Pop
    wait_ms: int


class ReadRequest(msgspec.Struct, frozen=True, gc=False):
    """A read of the leader's state.

    Attributes:
        query: The query.
        shape: How `render` shapes the reply where one query serves several routes.
    """

    query: Query
    shape: str = ""


class FetchRequest(msgspec.Struct, frozen=True, gc=False):
    """A read of this node's state, possibly a little behind.

    Attributes:
        query: The query.
        max_wait_ms: Answer when the reply is final or when this is over.
    """

    query: Fetch
    max_wait_ms: int


class RingRequest(msgspec.Struct, frozen=True, gc=False):
    """Something about ephemeral queues, for the leader's memory.

    Attributes:
        action: What.
        wait_ms: How long a pop waits for messages; 0 answers at once.
    """

    action: RingAction
    wait_ms: int = 0


class ReportRequest(msgspec.Struct, frozen=True, gc=False):
    """Figures about queues, from the leader's state and from what it has counted.

    Attributes:
        name: Which report.
        from_us: Begin of its window; None means an hour (or a day) before its end.
        to_us: End; None means now.
        queue: Only this one.
        namespace: Only queues with this label; empty means those without one.
        task: As `namespace`.
        group_by: "namespace", "task", "queue" or None.
        interval: "minute", "hour" or "day".
        limit: At most so many rows.
        offset: So many rows are left out first.
        is_paged: Whether `limit` and `offset` count where a report can do without.
    """

    name: str
    from_us: int | None
    to_us: int | None
    queue: str | None
    namespace: str | None
    task: str | None
    group_by: str | None
    interval: str
    limit: int
    offset: int
    is_paged: bool = False


class Local(msgspec.Struct, frozen=True, gc=False):
    """Something only this node can answer: "health", "metrics", "prometheus", "page", "openapi"."""

    name: str


class MembersRequest(msgspec.Struct, frozen=True, gc=False):
    """Something about the membership, for the leader.

    Attributes:
        action: What to do.
        node: To whom.
        address: Where a node to add is reached; None when the configuration says.
        voters: Who is to be a voter after `choose`.
    """

    action: Literal["show", "add", "promote", "remove", "choose", "replace"]
    node: str = ""
    address: tuple[str, int] | None = None
    voters: tuple[str, ...] = ()


Request = (
    Write
    | PopRequest
    | ReadRequest
    | FetchRequest
    | RingRequest
    | ReportRequest
    | MembersRequest
    | Local
)
Rendered = Write | PopRequest | ReadRequest | FetchRequest
"""The requests whose replies come from the machine."""
