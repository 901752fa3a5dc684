"""One fault of a plan: data, the same in the real and in a simulated world."""

from __future__ import annotations

import msgspec


class Fault(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is to happen, when, for how long. It heals itself.

    Attributes:
        id: Unique in its plan, such as `kill-leader-2`.
        kind: A name of `NEMESES`.
        target: A role that is looked up when the fault begins: leader, follower, nodes, worker or
            supervisor.
        at_s: When it begins, in seconds after the plan's start.
        duration_s: How long the target stays down or stopped; 0 for a worker, which its
            supervisor replaces.
        choice: Picks one of several candidates, as an index modulo their number.
    """

    id: str
    kind: str
    target: str
    at_s: float
    duration_s: float
    choice: int = 0

    def __post_init__(self) -> None:
        if not self.id:
            raise ValueError("a fault needs an id")
        for name, value in (("at_s", self.at_s), ("duration_s", self.duration_s)):
            if not 0 <= value < float("inf"):
                raise ValueError(f"fault {self.id}: {name} {value} is not allowed; 0 or more")
        if self.choice < 0:
            raise ValueError(f"fault {self.id}: choice {self.choice} is not allowed; 0 or more")
