"""What a request asks for, as a value."""

from __future__ import annotations

from dataclasses import dataclass

from ..broker.commands import Command, Pop
from ..broker.queries import Fetch, Query
from ..broker.ring_actions import RingAction


@dataclass(frozen=True, slots=True)
class Write:
    """A command for the log.

    Attributes:
        command: The command.
        shape: How `render` shapes the reply where one command serves two routes.
    """

    command: Command
    shape: str = ""


@dataclass(frozen=True, slots=True)
class PopRequest:
    """A pop, which enters the log only when `Machine.can_pop` says so.

    Attributes:
        command: The command.
        wait_ms: How long the client waits for messages; 0 answers at once.
    """

    command: Pop
    wait_ms: int


@dataclass(frozen=True, slots=True)
class ReadRequest:
    """A read of the leader's state.

    Attributes:
        query: The query.
        shape: How `render` shapes the reply where one query serves several routes.
    """

    query: Query
    shape: str = ""


@dataclass(frozen=True, slots=True)
class FetchRequest:
    """A read of this node's state, possibly a little behind.

    Attributes:
        query: The query.
        max_wait_ms: Answer when the reply is final or when this is over.
    """

    query: Fetch
    max_wait_ms: int


@dataclass(frozen=True, slots=True)
class RingRequest:
    """Something about ephemeral queues, for the leader's memory.

    Attributes:
        action: What.
        wait_ms: How long a pop waits for messages; 0 answers at once.
    """

    action: RingAction
    wait_ms: int = 0


@dataclass(frozen=True, slots=True)
class Local:
    """Something only this node can answer: "health", "metrics", "prometheus", "page", "openapi"."""

    name: str


Request = Write | PopRequest | ReadRequest | FetchRequest | RingRequest | Local
Rendered = Write | PopRequest | ReadRequest | FetchRequest
"""The requests whose replies come from the machine."""
