"""Which routes `routes.py` serves, read from its own text, so that no list has to be kept."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product

from atleastonce.system.http import routes

ANY = "{}"
REST = "{...}"

Shape = tuple[str, tuple[str, ...]]
"""A method, and the parts of a path; `ANY` is one part of any text, `REST` any number of them."""


@dataclass(frozen=True, slots=True)
class Served:
    """One route.

    Attributes:
        method: In capitals.
        parts: See `Shape`.
    """

    method: str
    parts: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.method} /{'/'.join(self.parts)}"

    def takes(self, parts: Sequence[str]) -> bool:
        """Whether a path of literals and `{names}` lies inside it."""
        own = self.parts
        if own and own[-1] == REST:
            own = own[:-1]
            parts = parts[: len(own)]
        return len(own) == len(parts) and all(
            mine in (ANY, theirs) for mine, theirs in zip(own, parts, strict=True)
        )


def served_routes() -> list[Served]:
    """Every route of the table and of the `match` statements in `routes.py`."""
    fixed = [Served(method, tuple(path.split("/")[1:])) for method, path in routes._FIXED]
    named = [
        Served(method, ("api", "v1", *parts))
        for match in ast.walk(ast.parse(inspect.getsource(routes)))
        if isinstance(match, ast.Match)
        for case in match.cases
        for method, parts in _shapes(case.pattern)
    ]
    return [*fixed, *named]


def _shapes(pattern: ast.pattern) -> Iterator[Shape]:
    """What a pattern `method, [part, …]` with alternatives matches."""
    if isinstance(pattern, ast.MatchOr):
        for alternative in pattern.patterns:
            yield from _shapes(alternative)
        return
    assert isinstance(pattern, ast.MatchSequence), ast.dump(pattern)
    method, path = pattern.patterns
    yield from product(_texts(method), _paths(path))


def _paths(pattern: ast.pattern) -> Iterator[tuple[str, ...]]:
    if isinstance(pattern, ast.MatchOr):
        for alternative in pattern.patterns:
            yield from _paths(alternative)
        return
    assert isinstance(pattern, ast.MatchSequence), ast.dump(pattern)
    yield from product(*[list(_texts(part)) for part in pattern.patterns])


def _texts(pattern: ast.pattern) -> Iterator[str]:
    match pattern:
        case ast.MatchOr(patterns=alternatives):
            for alternative in alternatives:
                yield from _texts(alternative)
        case ast.MatchValue(value=ast.Constant(value=str(text))):
            yield text
        case ast.MatchAs(pattern=None):
            yield ANY
        case ast.MatchAs(pattern=ast.pattern() as inner):
            yield from _texts(inner)
        case ast.MatchStar():
            yield REST
        case _:
            raise AssertionError(f"no part of a path: {ast.dump(pattern)}")
