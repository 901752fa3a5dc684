"""What a nemesis may ask of the nodes themselves: an answer, their members, a change of these."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

ChangeAction = Literal["add", "promote", "remove", "replace"]


@dataclass(frozen=True, slots=True)
class Change:
    """How a change of the members ended.

    Attributes:
        status: 200 if it is made, 409 if it was refused, 504 if it may still be made; 0 without an
            answer.
        code: What refused it.
    """

    status: int
    code: str = ""

    @property
    def word(self) -> str:
        """In a word or two."""
        if self.status == 200:
            return "done"
        return f"{self.status} {self.code}" if self.status else self.code or "no answer"


@dataclass(frozen=True, slots=True)
class Member:
    """A member, as its leader sees it.

    Attributes:
        role: voter or learner.
        lag: Entries that it lacks; None if nobody knows.
        replaced: Whether a node answers under its name whose data folder is another one.
    """

    role: str
    lag: int | None
    replaced: bool = False


class Administration(Protocol):
    """The operator's side of the nodes."""

    async def probe(self, node: str, body_bytes: int, timeout_s: float) -> int | None:
        """Send a request that makes no sense over a connection of its own, with a large body.

        Returns:
            The HTTP status that the node refuses it with; None without an answer in time.
        """

    async def members(self) -> Mapping[str, Member] | None:
        """Who belongs to the cluster, as its leader sees it; None without an answer."""

    async def change(self, action: ChangeAction, node: str, timeout_s: float) -> Change:
        """Ask any node for a change; waits while it is only too early for it."""

    async def wipe(self, node: str) -> int:
        """Delete the data of a node that is down, which joins from its next start on.

        Returns:
            How many bytes it had.
        """

    def start_within(self, node: str, command: Sequence[str]) -> None:
        """Have a node started by this command, whose last arguments are the node's own command.

        Args:
            node: The node, from its next start on.
            command: The command; empty for none.
        """
