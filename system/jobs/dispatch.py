"""Dispatching: a job becomes a message, or a timer that becomes one."""

from __future__ import annotations

import os
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, TypedDict, TypeVar, Unpack

from ..client import Answer, BrokerError, Call, PushResult, TimerResult, TransactionResult
from ..client import calls as broker
from .application import Application, JobSpec
from .callbacks import CallbackRef, callback_link, reference
from .debts import REASON_DUPLICATE
from .delays import check_delay_s, delay_until_s, instant_us, wall_us
from .links import Chain
from .payload import (
    Deadline,
    Envelope,
    JobBody,
    encode_data,
    encode_payload,
    partition_of,
    payload_digest,
)
from .settings import ConnectionSettings
from .unique import holder_of, take_operation, unique_lock

C = TypeVar("C")


@dataclass(frozen=True, slots=True)
class DispatchResult:
    """What became of a dispatch.

    Attributes:
        job_id: The job.
        status: `queued`, `duplicate`, `scheduled` or `rescheduled`; `waiting` until a commit.
        partition: Partition it goes to.
        offset: Offset of its message; None when it is delayed or unique.
        digest: SHA-256 of its data, hex.
        answered_by: The node that answered, `host:port`; empty while it waits.
        tries: How many tries it took.
        holder: Of a unique job that is a duplicate: the job that keeps it out, which may be itself.
    """

    job_id: str
    status: str
    partition: str
    offset: int | None
    digest: str
    answered_by: str
    tries: int
    holder: str | None = None


@dataclass(frozen=True, slots=True)
class Dispatch:
    """A job ready to be sent, any number of times under the same ids.

    Attributes:
        queue: Queue it goes to.
        body: The job.
        delay_s: Delay; at 0 it is pushed at once.
        request_id: Id that every try carries.
        unique_for_s: Lifetime of its lock, from when it is sent; only of a unique job.
        connection: Connection that it is sent on; None is the dispatcher's own.
        after_commit: Whether it waits for the commit of an open transaction.
    """

    queue: str
    body: JobBody
    delay_s: float
    request_id: str
    unique_for_s: float = 0.0
    connection: str | None = None
    after_commit: bool = False

    @property
    def partition(self) -> str:
        """Partition it goes to."""
        assert self.body.partition is not None, f"job {self.body.id} without a partition"
        return self.body.partition

    @property
    def digest(self) -> str:
        """SHA-256 of its data, hex."""
        return payload_digest(self.body.data)

    def call(
        self,
    ) -> Call[tuple[PushResult, ...]] | Call[tuple[TimerResult, ...]] | Call[TransactionResult]:
        """What to ask the broker."""
        if self.body.unique is not None:
            return broker.transaction(self._with_lock())
        if self.delay_s > 0:
            return broker.timers([self.timer()])
        return broker.push([self.item()])

    def waiting(self) -> DispatchResult:
        """What is said of it while it waits for a commit."""
        return DispatchResult(self.body.id, "waiting", self.partition, None, self.digest, "", 0)

    def with_body(self, body: JobBody) -> Dispatch:
        """The same job, with more in its body."""
        return replace(self, body=body)

    def item(self) -> dict[str, object]:
        """The message that it becomes, as a push has it."""
        return {
            "queue": self.queue,
            "partition": self.partition,
            "transactionId": self.body.id,
            "payload": Envelope(self.body),
        }

    def timer(self) -> dict[str, object]:
        """The timer that pushes it after its delay."""
        return broker.schedule_operation(
            self.queue,
            f"delay:{self.body.id}",
            delay_s=self.delay_s,
            txn=self.body.id,
            partition=self.partition,
            payload=encode_payload(Envelope(self.body)),
        )

    def _with_lock(self) -> dict[str, object]:
        assert self.body.unique is not None, f"job {self.body.id} has no lock"
        body: dict[str, object] = {
            "kv": [take_operation(self.body.unique, self.body.id, self.unique_for_s)]
        }
        if self.delay_s > 0:
            return {**body, "timers": [self.timer()]}
        return {**body, "operations": [{"type": "push", "items": [self.item()]}]}

    def read(
        self,
        answer: Answer[tuple[PushResult, ...]]
        | Answer[tuple[TimerResult, ...]]
        | Answer[TransactionResult],
    ) -> DispatchResult:
        """What the answer says.

        Raises:
            BrokerError: The broker refused the job.
        """
        if isinstance(answer.value, TransactionResult):
            return self._read_locked(answer.value, answer)
        if len(answer.value) != 1:
            text = f"{len(answer.value)} results for one job"
            raise BrokerError(200, "malformed_answer", text, definite=False)
        result = answer.value[0]
        offset: int | None = None
        if isinstance(result, PushResult):
            accepted, error = result.status in ("queued", "duplicate"), result.error
            offset = result.offset
        else:
            accepted, error = result.ok, None
        if not accepted:
            text = error or f"status {result.status}"
            raise BrokerError(200, "refused", text, definite=answer.tries == 1)
        return DispatchResult(
            self.body.id,
            result.status,
            self.partition,
            offset,
            self.digest,
            str(answer.answered_by),
            answer.tries,
        )

    def _read_locked(self, result: TransactionResult, answer: Answer[Any]) -> DispatchResult:
        status, holder = "scheduled" if self.delay_s > 0 else "queued", None
        if not result.success:
            if result.reason not in ("kv_precondition", REASON_DUPLICATE):
                text = result.error or f"reason {result.reason}"
                raise BrokerError(200, "refused", text, definite=answer.tries == 1)
            status = "duplicate"
            holder = holder_of(result) if result.reason == "kv_precondition" else self.body.id
        return DispatchResult(
            self.body.id,
            status,
            self.partition,
            None,
            self.digest,
            str(answer.answered_by),
            answer.tries,
            holder,
        )


class DispatchOptions(TypedDict, total=False):
    """What a dispatch may say beyond name and payload.

    Attributes:
        job_id: Its id; absent or None mints a UUID.
        delay_s: Delay, seconds, up to 90 days.
        delay_until: When it may run at the earliest, instead of `delay_s`; with a time zone.
        tries: Tries of this job; absent or None leaves it to the registration.
        timeout_s: Timeout of this job; absent or None leaves it to the registration.
        backoff_s: Back-off of this job; absent or None leaves it to the registration.
        partition: Its own ordering key; absent or None spreads by id.
        request_id: Id that every try carries; absent or None mints one.
        retry_until: Until when it may be tried, with a time zone; overrides its tries. Absent or
            None takes `retry_for_s` of the registration, from now.
        connection: Connection to send it on; absent or None takes the registration's.
        catch: A registered job or function that is called once when the job is given up.
        after_commit: Whether it waits for the commit of an open transaction; absent or None leaves
            it to the connection's settings.
    """

    job_id: str | None
    delay_s: float
    delay_until: datetime | None
    tries: int | None
    timeout_s: float | None
    backoff_s: tuple[float, ...] | None
    partition: str | None
    request_id: str | None
    retry_until: datetime | None
    connection: str | None
    catch: CallbackRef | None
    after_commit: bool | None


@dataclass(frozen=True, slots=True)
class Step:
    """A job of a chain or a batch.

    Attributes:
        job: Name it is registered under.
        payload: What the handler is called with; anything that JSON can hold.
        options: See `DispatchOptions`.
    """

    job: str
    payload: object = None
    options: DispatchOptions = field(default_factory=DispatchOptions)


def step(job: CallbackRef, payload: object = None, **options: Unpack[DispatchOptions]) -> Step:
    """A job of a chain or a batch, or a registered function."""
    return Step(reference(job), payload, options)


def prepare_dispatch(
    target: Application | ConnectionSettings,
    job_name: str,
    payload: object,
    **options: Unpack[DispatchOptions],
) -> Dispatch:
    """Make a job ready to be sent.

    Args:
        target: Where it goes; an application also checks the job's name.
        job_name: Name it is registered under.
        payload: What the handler is called with; anything that JSON can hold.
        options: See `DispatchOptions`.

    Raises:
        ValueError: The application has no connection or no such job, or a value cannot work.
        TypeError: The payload holds something that JSON cannot.
    """
    connection, settings, spec = _find(target, job_name, options)
    for pause_s in options.get("backoff_s") or ():
        check_delay_s("backoff_s", pause_s)
    chosen = options.get("job_id") or str(uuid.uuid4())
    data, encrypted = encode_data(payload), False
    if isinstance(target, Application):
        data, encrypted = target.encode_data(job_name, chosen, payload)
    body = JobBody(
        job=job_name,
        id=chosen,
        data=data,
        partition=options.get("partition") or partition_of(chosen, settings.partitions),
        tries=options.get("tries"),
        timeout_s=options.get("timeout_s"),
        backoff_s=options.get("backoff_s"),
        deadline=_deadline(options, spec),
        unique=None if spec is None else unique_lock(job_name, spec.rules, payload),
        chain=_caught(target, chosen, connection, options),
        encrypted=encrypted,
    )
    request_id = options.get("request_id") or os.urandom(16).hex()
    unique_for_s = 0.0 if spec is None else spec.rules.unique_for_s or 0.0
    chosen_wait = options.get("after_commit")
    return Dispatch(
        settings.queue,
        body,
        _delay_s(options),
        request_id,
        unique_for_s,
        connection,
        settings.after_commit if chosen_wait is None else chosen_wait,
    )


def bulk_batch_of(target: Application | ConnectionSettings, connection: str | None) -> int:
    """Jobs of a bulk dispatch that go in one request on a connection of a target."""
    settings = target.route(connection) if isinstance(target, Application) else target
    return settings.bulk_batch


def chosen_client(connection: str | None, own: C, routes: Mapping[str, C]) -> C:
    """The client of a connection; None is the dispatcher's own.

    Raises:
        ValueError: There is none.
    """
    if connection is None:
        return own
    client = routes.get(connection)
    if client is None:
        names = ", ".join(routes) or "none"
        raise ValueError(f"no client for connection {connection!r}; this dispatcher has: {names}")
    return client


def _find(
    target: Application | ConnectionSettings, job_name: str, options: DispatchOptions
) -> tuple[str | None, ConnectionSettings, JobSpec | None]:
    connection = options.get("connection")
    if not isinstance(target, Application):
        if connection is not None or options.get("catch") is not None:
            raise ValueError("connection and catch need an application to be looked up in")
        return None, target, None
    spec = target.require(job_name)
    connection = connection or spec.connection
    return connection, target.route(connection), spec


def _caught(
    target: Application | ConnectionSettings,
    job_id: str,
    connection: str | None,
    options: DispatchOptions,
) -> Chain | None:
    catch = options.get("catch")
    if catch is None or not isinstance(target, Application):
        return None
    return Chain(id=job_id, catch=callback_link(target, catch, f"{job_id}.catch", connection))


def _delay_s(options: DispatchOptions) -> float:
    delay_s, until = options.get("delay_s", 0.0), options.get("delay_until")
    if until is None:
        return check_delay_s("delay_s", delay_s)
    if delay_s:
        raise ValueError(f"delay_s is {delay_s:g} beside a delay_until; name one of them")
    return delay_until_s("delay_until", until)


def _deadline(options: DispatchOptions, spec: JobSpec | None) -> Deadline | None:
    until = options.get("retry_until")
    if until is not None:
        until_us = instant_us("retry_until", until)
        return Deadline(until_us, max(0, until_us - wall_us()))
    if spec is None or spec.rules.retry_for_s is None:
        return None
    span_us = round(spec.rules.retry_for_s * 1_000_000)
    return Deadline(wall_us() + span_us, span_us)
