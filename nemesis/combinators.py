"""Combinators: a few lines of a plan file that stand for many faults, expanded from the seed.

A node is a nemesis's name, a package's name, or an object whose `do` says what becomes of the nodes
in its `of`. Every draw comes from a stream of its own, keyed by the node's place in the file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Annotated, ClassVar, Final

import msgspec
from msgspec import Meta

from ..histories.ops import Json
from .draws import draw_fault, healed_s, stream_of
from .fault import Fault
from .registry import NEMESES
from .settings import NemesisSettings

Moment = Annotated[float, Meta(ge=0)]
Span = Annotated[float, Meta(ge=0.1)]
_ROUNDS_MAX: Final = 10_000


class Once(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`fault`: one fault; what is left out is the nemesis's own, or drawn.

    Attributes:
        kind: A nemesis or a package.
        target: A selector.
        at_s: So long after the node's turn.
        duration_s: How long it lasts.
        options: Beside those that are drawn.
        after: An event; then `at_s` counts from there.
    """

    word: ClassVar[str] = "fault"
    kind: str
    target: str = ""
    at_s: Moment = 0.0
    duration_s: Moment | None = None
    options: dict[str, Json] = {}
    after: str = ""


class _Rounds(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Rounds `every_s`, from `from_s` until `until_s` or for so many `times`.

    A round that comes before the last one is healed is left out.
    """

    of: list[Json]
    every_s: Span
    from_s: Moment = 0.0
    until_s: Moment | None = None
    times: Annotated[int, Meta(ge=1)] | None = None
    jitter_s: Moment = 0.0


class Every(_Rounds, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`every`: all of its nodes in each round."""

    word: ClassVar[str] = "every"


class Mix(_Rounds, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`mix`: one of its nodes in each round, drawn."""

    word: ClassVar[str] = "mix"


class FlipFlop(_Rounds, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`flip-flop`: its nodes in turn, one in each round."""

    word: ClassVar[str] = "flip-flop"


class InSequence(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`sequence`: its nodes one after the other, each `pause_s` after the last one is healed."""

    word: ClassVar[str] = "sequence"
    of: list[Json]
    from_s: Moment = 0.0
    pause_s: Moment = 1.0


class After(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`after`: its nodes, whose times count from an event."""

    word: ClassVar[str] = "after"
    event: str
    of: list[Json]


Combinator = Once | Every | Mix | FlipFlop | InSequence | After
Node = str | Combinator

SHAPES: Final[dict[str, type[Combinator]]] = {
    shape.word: shape for shape in (Once, Every, Mix, FlipFlop, InSequence, After)
}

ReadNode = Callable[[Json, str], Node]


@dataclass(frozen=True, slots=True)
class Expansion:
    """Turns nodes into faults.

    Attributes:
        seed: Of the plan.
        until_s: What is not healed by then is left out.
        settings: Durations of what is drawn.
        packages: The nemeses that each package stands for.
        read: Reads a node of an `of`; the second argument is its place in the file.
    """

    seed: int
    until_s: float
    settings: NemesisSettings
    packages: dict[str, tuple[str, ...]]
    read: ReadNode

    def expand(self, node: Node, place: str, at_s: float, after: str = "") -> list[Fault]:
        """All faults of a node whose turn is at a time, without ids of their own yet."""
        if isinstance(node, str):
            node = Once(kind=node)
        if isinstance(node, Once):
            return [f for f in [self._once(node, place, at_s, after)] if self._fits(f)]
        if isinstance(node, After):
            inner = self._children(node.of, place)
            return [f for at, one in inner for f in self.expand(one, at, 0.0, node.event)]
        if isinstance(node, InSequence):
            return list(self._sequence(node, place, at_s, after))
        return list(self._rounds(node, place, at_s, after))

    def _children(self, of: list[Json], place: str) -> list[tuple[str, Node]]:
        places = [f"{place}.of[{number}]" for number in range(len(of))]
        return [(at, self.read(raw, at)) for at, raw in zip(places, of, strict=True)]

    def _fits(self, fault: Fault) -> bool:
        return healed_s(fault) <= self.until_s

    def _once(self, node: Once, place: str, at_s: float, after: str) -> Fault:
        turn = round(at_s * 1000)
        kind = node.kind
        if kind not in NEMESES:
            kinds = self.packages[kind]
            kind = stream_of(self.seed, place, turn, "kind").choice(list(kinds))
        stream = stream_of(self.seed, place, turn)
        begins_s = node.at_s if node.after else at_s + node.at_s
        drawn = draw_fault(NEMESES[kind], place, round(begins_s * 1000), stream, self.settings)
        return msgspec.structs.replace(
            drawn,
            target=node.target or drawn.target,
            duration_s=drawn.duration_s if node.duration_s is None else node.duration_s,
            options=drawn.options | node.options,
            after=node.after or after,
        )

    def _sequence(self, node: InSequence, place: str, at_s: float, after: str) -> Iterator[Fault]:
        turn_s = at_s + node.from_s
        for where, one in self._children(node.of, place):
            faults = self.expand(one, where, turn_s, after)
            yield from faults
            healed = [healed_s(fault) for fault in faults if fault.after == after]
            turn_s = max([turn_s, *(end + node.pause_s for end in healed)])

    def _rounds(
        self, node: Every | Mix | FlipFlop, place: str, at_s: float, after: str
    ) -> Iterator[Fault]:
        children = self._children(node.of, place)
        begin_s = at_s + node.from_s
        until_s = self.until_s if node.until_s is None else min(node.until_s, self.until_s)
        free_s = 0.0
        for number in range(min(node.times or _ROUNDS_MAX, _ROUNDS_MAX)):
            stream = stream_of(self.seed, place, round(at_s * 1000), number)
            slot_s = begin_s + number * node.every_s + stream.random() * node.jitter_s
            if slot_s > until_s:
                return
            if slot_s < free_s:
                continue
            chosen = children
            if isinstance(node, Mix):
                chosen = [stream.choice(children)]
            elif isinstance(node, FlipFlop):
                chosen = [children[number % len(children)]]
            faults = [f for where, one in chosen for f in self.expand(one, where, slot_s, after)]
            faults = [fault for fault in faults if healed_s(fault) <= until_s]
            yield from faults
            free_s = max([free_s, *(healed_s(f) for f in faults if f.after == after)])
