"""Workers of one kind: those of one queue of one pool, or of a pool that is not told apart."""

from __future__ import annotations

from dataclasses import dataclass

from ..jobs.settings import WorkerSettings
from .core.moves import Place
from .core.pool import Pool


@dataclass(slots=True, eq=False)
class Crew:
    """Workers that are all set to the same.

    Attributes:
        name: What the log calls them; empty when there is only one kind.
        pool: Their slots and their circuit.
        settings: What each is set to.
        is_preforked: Whether they are forked from the loaded application.
        is_forced: Whether they work in maintenance, too.
    """

    name: str
    pool: Pool
    settings: WorkerSettings
    is_preforked: bool = True
    is_forced: bool = False

    def place(self) -> Place:
        """Return how many there are."""
        return Place(self.pool.active, self.pool.draining)
