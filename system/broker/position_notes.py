"""Notes that positions carry; most cursors have none."""

from __future__ import annotations

from .changes import Dirty

Place = tuple[int, int]
"""Group number and partition number."""


class PositionNotes:
    """By place; what is not here is empty.

    Attributes:
        changed: What no checkpoint has yet.
    """

    __slots__ = ("_notes", "changed")

    def __init__(self) -> None:
        self._notes: dict[Place, str] = {}
        self.changed: Dirty[Place, str] = Dirty()

    def get(self, place: Place) -> str:
        """A place's note."""
        return self._notes.get(place, "")

    def put(self, place: Place, note: str) -> None:
        """Set a place's note; an empty one takes it away."""
        if not note:
            self.drop(place)
            return
        if place in self._notes:
            self.changed.change(place, note)
        else:
            self.changed.add(place, note)
        self._notes[place] = note

    def drop(self, place: Place) -> None:
        """A place has no note any longer."""
        if self._notes.pop(place, None) is not None:
            self.changed.drop(place)

    def items(self) -> list[tuple[Place, str]]:
        """All of them, in order."""
        return sorted(self._notes.items())
