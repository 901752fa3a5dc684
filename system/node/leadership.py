"""Who leads, as this node knows it; tasks wait here for that to change."""

from __future__ import annotations

import trio

from ..raft.events import Role


class Leadership:
    """This node's view.

    Attributes:
        role: This node's role.
        term: Its term.
        leader: The leader it knows of, possibly itself.
        is_serving: Whether this node leads and has applied an entry of its own term, so that it
            knows everything that was ever answered.
    """

    def __init__(self) -> None:
        self.role = Role.FOLLOWER
        self.term = 0
        self.leader: str | None = None
        self.is_serving = False
        self._changed = trio.Event()

    def announce(self) -> None:
        """Wake everyone who waits for a change."""
        self._changed.set()
        self._changed = trio.Event()

    async def wait_change(self, deadline: float) -> None:
        """Return at the next change or at an instant of trio's clock."""
        changed = self._changed
        with trio.move_on_at(deadline):
            await changed.wait()
