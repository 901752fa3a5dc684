"""How one operation of the HTTP surface is described; `openapi` makes a document of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal

from msgspec import Meta

from .answer import CodedErrorBody, ErrorBody
from .incoming import NAME_BYTES_MAX


@dataclass(frozen=True, slots=True)
class Media:
    """A body that is no JSON."""

    content_type: str


PLAIN_TEXT: Final = Media("text/plain")
HTML: Final = Media("text/html")

Schema = dict[str, object]
Reach = Literal["leader", "node"]

QUEUE_EXAMPLE: Final = "orders"
GROUP_EXAMPLE: Final = "billing"

Name = Annotated[str, Meta(min_length=1, max_length=NAME_BYTES_MAX)]
Count = Annotated[int, Meta(ge=0)]


@dataclass(frozen=True, slots=True)
class Parameter:
    """A query parameter; none is required unless it says so.

    Attributes:
        name: As in the URL.
        schema: JSON Schema of its value.
        text: What it does.
    """

    name: str
    schema: Schema
    text: str = ""
    required: bool = False


@dataclass(frozen=True, slots=True)
class Operation:
    """One method of one path.

    Attributes:
        method: In capitals.
        path: With `{names}` in it; a name `key` may stand for several parts.
        text: What it does, one line.
        answers: Status to type of the body: a msgspec type, a `Media`, None for no body, or a
            tuple of those. Refusals that every operation may give are added by `statuses`.
        body: Type of the request's body; None for no body.
        body_optional: Whether the body may be missing.
        query: Parameters.
        reach: Who answers: the leader, or the node that was asked.
        grows: Whether it may store payloads, and so be answered 507.
        coded: Whether refusals have the form `{error, reason, detail}` too.
        is_open: Whether it is served without a token where tokens are asked for.
    """

    method: str
    path: str
    text: str
    answers: Mapping[int, Any]
    body: Any = None
    body_optional: bool = False
    query: tuple[Parameter, ...] = ()
    reach: Reach = "leader"
    grows: bool = False
    coded: bool = False
    is_open: bool = False

    @property
    def names(self) -> tuple[str, ...]:
        """The names in its path."""
        parts = self.path.split("/")
        return tuple(part[1:-1] for part in parts if part.startswith("{"))

    def statuses(self) -> dict[int, tuple[Any, ...]]:
        """Every status that it may be answered with, and what types its body may have."""
        error: tuple[Any, ...] = (ErrorBody, CodedErrorBody) if self.coded else (ErrorBody,)
        found: dict[int, tuple[Any, ...]] = dict.fromkeys(_REFUSALS, (ErrorBody,))
        found[400] = error
        found[413] = (*error, PLAIN_TEXT)
        if not self.is_open:
            found |= dict.fromkeys((401, 403), error)
        if self.reach == "leader":
            found[503] = (ErrorBody,)
        if self.grows:
            found[507] = (ErrorBody,)
        for status, body in self.answers.items():
            bodies = body if isinstance(body, tuple) else (body,)
            found[status] = (*found.get(status, ()), *bodies)
        return dict(sorted(found.items()))


_REFUSALS: Final = (400, 408, 413, 429, 431)


def text(
    name: str, about: str = "", example: str | None = None, required: bool = False
) -> Parameter:
    """A parameter that is a text."""
    schema: Schema = {"type": "string"}
    if example is not None:
        schema["examples"] = [example]
    return Parameter(name, schema, about, required)


def number(name: str, about: str = "", minimum: int | None = 0) -> Parameter:
    """A parameter that is a whole number."""
    schema: Schema = {"type": "integer"}
    if minimum is not None:
        schema["minimum"] = minimum
    return Parameter(name, schema, about)


def switch(name: str, about: str = "") -> Parameter:
    """A parameter that is true or false."""
    return Parameter(name, {"type": "boolean"}, about)
