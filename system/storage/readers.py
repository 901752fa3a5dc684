"""Who reads a store, and whoever must have it alone for a moment."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager


class Readers:
    """Readers of two kinds, short and long, beside a writer who sometimes needs them all out.

    A short read is over at once, so the writer goes first: while it waits, no read begins. But
    while a long one is under way it could wait for long, and short reads go on meanwhile.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._short = 0
        self._long = 0
        self._is_wanted = False
        self._is_closed = False

    @contextmanager
    def reading(self, *, is_long: bool = False) -> Iterator[bool]:
        """Read; gives False, and no room, when the store is closed."""
        with self._changed:
            while self._is_wanted and (is_long or not self._long) and not self._is_closed:
                self._changed.wait()
            is_open = not self._is_closed
            if is_open:
                self._count(is_long, 1)
        try:
            yield is_open
        finally:
            if is_open:
                with self._changed:
                    self._count(is_long, -1)
                    self._changed.notify_all()

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Wait until nobody reads, and keep readers out; one writer at a time."""
        with self._changed:
            self._is_wanted = True
            try:
                self._changed.wait_for(self._is_empty)
                yield
            finally:
                self._is_wanted = False
                self._changed.notify_all()

    def close(self) -> None:
        """Let nobody in any more, and wait until all are out."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
            self._changed.wait_for(self._is_empty)

    def _count(self, is_long: bool, change: int) -> None:
        if is_long:
            self._long += change
        else:
            self._short += change

    def _is_empty(self) -> bool:
        return not self._short and not self._long
