"""Jobs that need not run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..context import JobContext
from ..rules import Proceed

Predicate = Callable[[JobContext, Any], bool]


class Skip:
    """Drops a job: it is done, and its handler is not called."""

    def __init__(self, *, when: Predicate | None = None, unless: Predicate | None = None) -> None:
        """Say which.

        Args:
            when: Skips where it holds.
            unless: Skips where it does not hold.

        Raises:
            ValueError: Neither or both are given.
        """
        if (when is None) == (unless is None):
            raise ValueError("Skip needs exactly one of when and unless")
        self._when = when
        self._unless = unless

    def __call__(self, context: JobContext, payload: Any, proceed: Proceed) -> None:
        """Ask, then skip or go on."""
        if self._when is not None and self._when(context, payload):
            context.skip("skipped by its rule")
        if self._unless is not None and not self._unless(context, payload):
            context.skip("skipped by its rule")
        proceed(context, payload)
