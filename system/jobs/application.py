"""An application: its jobs by name, its listeners, where its jobs live."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeVar, Unpack, cast

import msgspec

from .context import JobContext
from .delays import check_delay_s
from .encryption import EncryptionKeys, UnsealError
from .events import Event
from .payload import JobBody, encode_data
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
        connection: Connection that it is dispatched on; None is the application's own.
        encrypted: Whether its data is sealed while it travels and lies.
    """

    name: str
    run: Callable[[JobContext, Any], None]
    failed: Callable[[Any, str], None] | None = None
    tries: int | None = None
    backoff_s: tuple[float, ...] | None = None
    timeout_s: float | None = None
    rules: JobRules = NO_RULES
    connection: str | None = None
    encrypted: bool = False


class Application:
    """Holds what workers run. Made once, before workers are forked from it."""

    def __init__(
        self,
        connection: ConnectionSettings | None = None,
        failed_store: str | Path | None = None,
        *,
        connections: Mapping[str, ConnectionSettings] | None = None,
        encryption: EncryptionKeys | None = None,
    ) -> None:
        """Start without jobs.

        Args:
            connection: Where its jobs live, for dispatching.
            failed_store: SQLite file of jobs that were given up; a worker may be set to another.
            connections: Further places, by the name that jobs and dispatches choose them by.
            encryption: What seals the data of jobs that are registered as encrypted.
        """
        self.connection = connection
        self.connections = dict(connections or {})
        self.encryption = encryption
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
        connection: str | None = None,
        encrypted: bool = False,
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
            else:
                run, hook = cast("Callable[[JobContext, Any], None]", target), None
            hook = failed or hook
            self.add(
                JobSpec(
                    chosen,
                    run,
                    hook,
                    tries,
                    backoff_s,
                    timeout_s,
                    made,
                    connection,
                    encrypted,
                )
            )
            return target

        return register

    def function(self, target: D) -> D:
        """Register a function `f(context, payload)` as `module:function`, to be called back.

        Raises:
            ValueError: It is registered already.
        """
        return self.job(f"{target.__module__}:{target.__qualname__}")(target)

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

    def require(self, name: str) -> JobSpec:
        """The job of this name.

        Raises:
            ValueError: There is none.
        """
        spec = self._jobs.get(name)
        if spec is None:
            raise ValueError(f"unknown job {name!r}; choose from: {', '.join(self.job_names)}")
        return spec

    def route(self, connection: str | None) -> ConnectionSettings:
        """The settings of a connection; None is the application's own.

        Raises:
            ValueError: There is none of this name.
        """
        if connection is None:
            if self.connection is None:
                raise ValueError("the application has no connection settings")
            return self.connection
        settings = self.connections.get(connection)
        if settings is None:
            names = ", ".join(self.connections) or "none"
            raise ValueError(f"unknown connection {connection!r}; choose from: {names}")
        return settings

    def set_dispatching(self, bulk_batch: int | None, after_commit: bool | None) -> None:
        """Set both on all connections; None leaves one as it is. For the jobs of a worker."""
        changes: dict[str, Any] = {}
        if bulk_batch is not None:
            changes["bulk_batch"] = bulk_batch
        if after_commit is not None:
            changes["after_commit"] = after_commit
        if not changes:
            return
        if self.connection is not None:
            self.connection = msgspec.structs.replace(self.connection, **changes)
        self.connections = {
            name: msgspec.structs.replace(settings, **changes)
            for name, settings in self.connections.items()
        }

    def encode_data(self, name: str, job_id: str, data: object) -> tuple[msgspec.Raw, bool]:
        """What a job is to be called with, as it travels; and whether it is sealed.

        Raises:
            ValueError: It is to be sealed, and the application has no keys.
            TypeError: It holds something that JSON cannot.
        """
        encoded = encode_data(data)
        spec = self._jobs.get(name)
        if spec is None or not spec.encrypted:
            return encoded, False
        if self.encryption is None:
            raise ValueError(f"job {name!r} is encrypted, but the application has no keys")
        return self.encryption.seal(bytes(encoded), f"{name}\n{job_id}"), True

    def decode_data(self, body: JobBody) -> Any:
        """What a delivered job is called with.

        Raises:
            UnsealError: It is sealed by a key that the application lacks, or was changed.
        """
        if not body.encrypted:
            return msgspec.json.decode(body.data)
        if self.encryption is None:
            raise UnsealError("its data is encrypted, but the application has no keys")
        return msgspec.json.decode(self.encryption.unseal(body.data, f"{body.job}\n{body.id}"))

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
