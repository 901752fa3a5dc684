"""What can go wrong around a run, sorted by whose turn it is to act."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from enum import IntEnum


class Exit(IntEnum):
    """Exit statuses of `verify`."""

    VALID = 0
    INVALID = 1
    USAGE = 2
    UNKNOWN = 3
    HARNESS = 4


class VerifyError(Exception):
    """Ends `verify` with one line on standard error and a fixed exit status."""

    status: Exit = Exit.HARNESS


class UsageError(VerifyError):
    """The caller asked for what cannot be had; the line names the value and the choices."""

    status = Exit.USAGE


class HarnessError(VerifyError):
    """The harness could not do its part, so the run says nothing about the system."""


class NodeStartError(HarnessError):
    """A process of the system did not come up; the message ends with the last lines of its log."""


def unknown_name(what: str, name: str, choices: Iterable[str]) -> UsageError:
    """Build the one line for a name that is not among the choices, with the closest one first."""
    known = sorted(choices)
    close = difflib.get_close_matches(name, known, n=1)
    hint = f" (did you mean {close[0]!r}?)" if close else ""
    return UsageError(f"unknown {what} {name!r}{hint}; choose from: {', '.join(known)}")
