"""An application: its jobs by name, its listeners, where its jobs live."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeVar, Unpack, cast

from .context import JobContext
from .delays import check_delay_s
from .events import Event
from .rules import NO_RULES, JobRules, RuleOptions, make_rules
from .settings import ConnectionSettings

E = TypeVar("E", bound=Event)
D = TypeVar("D", bound=Callable[..., object])


class Job(Protocol):
    """A job as a class: made with the payload; `failed(error)` is optional."""

    def handle(self, context: JobContext) -> None:
        """Do the work."""


@dataclass(frozen=True, slots=True)
class JobSpec:
    """A registered job.

    Attributes:
        name: Its name on the wire.
        run: Does the work.
        failed: Called with payload and error when the job was given up.
        tries: Tries; None takes the worker's, 0 is unlimited.
        backoff_s: Pauses before the second, third, … try; the last one repeats; None takes the
            worker's.
        timeout_s: Timeout; None takes the worker's, 0 is none.
    """

    name: str
    run: Callable[[JobContext, Any], None]
    failed: Callable[[Any, str], None] | None = None
    tries: int | None = None
    backoff_s: tuple[float, ...] | None = None
    timeout_s: float | None = None
    rules: JobRules = NO_RULES


class Application:
    """Holds what workers run. Made once, before workers are forked from it."""

    def __init__(
        self,
        connection: ConnectionSettings | None = None,
        failed_store: str | Path | None = None,
    ) -> None:
        """Start without jobs.

        Args:
            connection: Where its jobs live, for dispatching.
            failed_store: SQLite file of jobs that were given up; a worker may be set to another.
        """
        self.connection = connection
        self.failed_store = failed_store
        self._jobs: dict[str, JobSpec] = {}
        self._listeners: dict[type, list[Callable[[Any], None]]] = {}

    def job(
        self,
        name: str | None = None,
        *,
        tries: int | None = None,
        backoff_s: tuple[float, ...] | None = None,
        timeout_s: float | None = None,
        failed: Callable[[Any, str], None] | None = None,
        **rules: Unpack[RuleOptions],
    ) -> Callable[[D], D]:
        """Register the function `f(context, payload)` or the class that it decorates.

        See `JobSpec` and, for the rest, `RuleOptions`.

        Raises:
            ValueError: The name is taken, or a value cannot work.
        """
        made = make_rules(rules)

        def register(target: D) -> D:
            chosen = name or target.__name__
            if isinstance(target, type):
                run, hook = _of_class(target)
                self.add(JobSpec(chosen, run, failed or hook, tries, backoff_s, timeout_s, made))
            else:
                handler = cast("Callable[[JobContext, Any], None]", target)
                self.add(JobSpec(chosen, handler, failed, tries, backoff_s, timeout_s, made))
            return target

        return register

    def add(self, spec: JobSpec) -> None:
        """Register a job.

        Raises:
            ValueError: The name is taken, or a value cannot work.
        """
        if spec.name in self._jobs:
            raise ValueError(f"job {spec.name!r} is registered already")
        for label, value in (("tries", spec.tries), ("timeout_s", spec.timeout_s)):
            if value is not None and value < 0:
                raise ValueError(f"{label} of job {spec.name!r} is {value:g}; allowed: 0 or more")
        for pause_s in spec.backoff_s or ():
            check_delay_s(f"backoff_s of job {spec.name!r}", pause_s)
        spec.rules.check(spec.name)
        self._jobs[spec.name] = spec

    def find(self, name: str) -> JobSpec | None:
        """The job of this name."""
        return self._jobs.get(name)

    @property
    def job_names(self) -> tuple[str, ...]:
        """All names, in order of registration."""
        return tuple(self._jobs)

    def listen(self, event: type[E], listener: Callable[[E], None]) -> None:
        """Have `listener` called with every event of one type, in the worker's process."""
        self._listeners.setdefault(event, []).append(listener)

    def notify(self, event: Event) -> None:
        """Call the listeners of an event, in order of registration."""
        for listener in self._listeners.get(type(event), ()):
            listener(event)


def _of_class(
    cls: type,
) -> tuple[Callable[[JobContext, Any], None], Callable[[Any, str], None] | None]:
    make = cast("Callable[[Any], Job]", cls)

    def run(context: JobContext, payload: Any) -> None:
        make(payload).handle(context)

    def failed(payload: Any, error: str) -> None:
        hook = cast("Any", make(payload)).failed
        hook(error)

    return run, failed if hasattr(cls, "failed") else None
