"""One fault of a plan: data, the same in the real and in a simulated world."""

from __future__ import annotations

import msgspec

from ..histories.ops import Json


class Fault(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is to happen, when, for how long. It heals itself.

    Attributes:
        id: Unique in its plan, such as `kill-leader-2`.
        kind: A name of `NEMESES`.
        target: A selector that is looked up when the fault begins: a role such as leader, minority
            or worker, or nodes by name, such as `n1+n3`; see `selectors`.
        at_s: When it begins, in seconds after the plan's start, or after the event of `after`.
        duration_s: How long the target stays down or stopped; 0 for a worker, which its
            supervisor replaces.
        choice: Picks one of several candidates, as an index modulo their number.
        options: What else the kind can be told; what is left out has its default.
        after: An event that opens it; see `events`. Empty for the plan's start.
    """

    id: str
    kind: str
    target: str
    at_s: float
    duration_s: float
    choice: int = 0
    options: dict[str, Json] = {}
    after: str = ""

    def __post_init__(self) -> None:
        if not self.id:
            raise ValueError("a fault needs an id")
        for name, value in (("at_s", self.at_s), ("duration_s", self.duration_s)):
            if not 0 <= value < float("inf"):
                raise ValueError(f"fault {self.id}: {name} {value} is not allowed; 0 or more")
        if self.choice < 0:
            raise ValueError(f"fault {self.id}: choice {self.choice} is not allowed; 0 or more")

    def plain(self) -> dict[str, Json]:
        """The object that stands in a file: without options and event where it has none."""
        plain: dict[str, Json] = msgspec.to_builtins(self)
        if not self.options:
            del plain["options"]
        if not self.after:
            del plain["after"]
        return plain
