"""What a registration may say of a job beyond its tries: every rule is off unless it is named."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypedDict

from .context import JobContext

Proceed = Callable[[JobContext, Any], None]
"""The rest of a chain of middleware, down to the handler."""

Middleware = Callable[[JobContext, Any, Proceed], None]
"""Stands before a handler: calls the rest of the chain, or ends the attempt in another way."""

UniqueUntil = Literal["end", "processing"]


class RuleOptions(TypedDict, total=False):
    """The rules of a job, as `Application.job` takes them.

    Attributes:
        retry_for_s: How long after its dispatch a job may be tried; overrides its tries.
        max_exceptions: Throws after which a job is given up, whatever tries it has left; releases
            do not count, a timeout does.
        fail_on_timeout: Whether the first timeout gives a job up.
        middleware: What stands before the handler, the outermost first.
        resolve: Turns the payload into what middleware and handler are called with; raises
            `MissingModel` when something that the payload names is gone.
        delete_when_missing: Whether such a job is dropped; otherwise it is given up.
        unique_for_s: How long a job's lock keeps others like it from being queued, at most.
        unique_key: Which jobs are alike, of the payload; None means all of this name.
        unique_until: Whether the lock is freed when the job has ended, or before it starts.
    """

    retry_for_s: float | None
    max_exceptions: int | None
    fail_on_timeout: bool
    middleware: Sequence[Middleware]
    resolve: Callable[[Any], Any] | None
    delete_when_missing: bool
    unique_for_s: float | None
    unique_key: Callable[[Any], str] | None
    unique_until: UniqueUntil


@dataclass(frozen=True, slots=True)
class JobRules:
    """The rules of a registered job; the attributes are those of `RuleOptions`."""

    retry_for_s: float | None = None
    max_exceptions: int | None = None
    fail_on_timeout: bool = False
    middleware: tuple[Middleware, ...] = ()
    resolve: Callable[[Any], Any] | None = None
    delete_when_missing: bool = False
    unique_for_s: float | None = None
    unique_key: Callable[[Any], str] | None = None
    unique_until: UniqueUntil = "end"

    def check(self, job: str) -> None:
        """Refuse what cannot work.

        Raises:
            ValueError: Names the job, the value and what is allowed.
        """
        for name in ("retry_for_s", "unique_for_s"):
            value = getattr(self, name)
            if value is not None and not 0 < value < math.inf:
                raise ValueError(f"{name} of job {job!r} is {value:g}; it must be above 0")
        if self.max_exceptions is not None and self.max_exceptions < 1:
            text = f"max_exceptions of job {job!r} is {self.max_exceptions}; allowed: 1 or more"
            raise ValueError(text)
        if self.unique_until not in ("end", "processing"):
            text = f"unique_until of job {job!r} is {self.unique_until!r}; allowed: end, processing"
            raise ValueError(text)
        if self.unique_for_s is None and (
            self.unique_key is not None or self.unique_until != "end"
        ):
            raise ValueError(f"job {job!r} is unique without unique_for_s; name its longest life")
        if self.delete_when_missing and self.resolve is None:
            raise ValueError(f"delete_when_missing of job {job!r} needs a resolve")


def make_rules(options: RuleOptions) -> JobRules:
    """The rules that a registration names."""
    fields: dict[str, Any] = {**options}
    fields["middleware"] = tuple(options.get("middleware", ()))
    return JobRules(**fields)


NO_RULES = JobRules()
