"""Dispatching: a job becomes a message, or a timer that becomes one."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypedDict, Unpack

from ..client import (
    Answer,
    AsyncClient,
    BrokerError,
    Call,
    PushResult,
    SyncClient,
    TimerResult,
    TransactionResult,
)
from ..client import calls as broker
from .application import Application, JobSpec
from .debts import REASON_DUPLICATE
from .delays import check_delay_s, delay_until_s, instant_us, wall_us
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


@dataclass(frozen=True, slots=True)
class DispatchResult:
    """What became of a dispatch.

    Attributes:
        job_id: The job.
        status: `queued`, `duplicate`, `scheduled` or `rescheduled`.
        partition: Partition it goes to.
        offset: Offset of its message; None when it is delayed or unique.
        digest: SHA-256 of its data, hex.
        answered_by: The node that answered, `host:port`.
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
    """

    queue: str
    body: JobBody
    delay_s: float
    request_id: str
    unique_for_s: float = 0.0

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
    settings, spec = _find(target, job_name)
    for pause_s in options.get("backoff_s") or ():
        check_delay_s("backoff_s", pause_s)
    chosen = options.get("job_id") or str(uuid.uuid4())
    body = JobBody(
        job=job_name,
        id=chosen,
        data=encode_data(payload),
        partition=options.get("partition") or partition_of(chosen, settings.partitions),
        tries=options.get("tries"),
        timeout_s=options.get("timeout_s"),
        backoff_s=options.get("backoff_s"),
        deadline=_deadline(options, spec),
        unique=None if spec is None else unique_lock(job_name, spec.rules, payload),
    )
    request_id = options.get("request_id") or uuid.uuid4().hex
    unique_for_s = 0.0 if spec is None else spec.rules.unique_for_s or 0.0
    return Dispatch(settings.queue, body, _delay_s(options), request_id, unique_for_s)


def _find(
    target: Application | ConnectionSettings, job_name: str
) -> tuple[ConnectionSettings, JobSpec | None]:
    if not isinstance(target, Application):
        return target, None
    if target.connection is None:
        raise ValueError("the application has no connection settings")
    spec = target.find(job_name)
    if spec is None:
        names = ", ".join(target.job_names)
        raise ValueError(f"unknown job {job_name!r}; choose from: {names}")
    return target.connection, spec


def _delay_s(options: DispatchOptions) -> float:
    delay_s, until = options.get("delay_s", 0.0), options.get("delay_until")
    if until is None:
        return check_delay_s("delay_s", delay_s)
    if delay_s:
        raise ValueError(f"delay_s is {delay_s:g} beside a delay_until; name one of them")
    return delay_until_s("delay_until", until)


def _deadline(options: DispatchOptions, spec: JobSpec | None) -> Deadline | None:
    now_us, until = wall_us(), options.get("retry_until")
    if until is not None:
        until_us = instant_us("retry_until", until)
        return Deadline(until_us, max(0, until_us - now_us))
    if spec is None or spec.rules.retry_for_s is None:
        return None
    span_us = round(spec.rules.retry_for_s * 1_000_000)
    return Deadline(now_us + span_us, span_us)


class Dispatcher:
    """Dispatches from trio tasks."""

    def __init__(self, client: AsyncClient) -> None:
        """Use a client, which stays the caller's."""
        self._client = client

    async def dispatch(
        self,
        target: Application | ConnectionSettings,
        job_name: str,
        payload: object,
        **options: Unpack[DispatchOptions],
    ) -> DispatchResult:
        """Prepare and send a job; the options are those of `prepare_dispatch`.

        Raises:
            BrokerError: The broker refused it, or its fate is unknown (`definite` is false).
            ValueError: See `prepare_dispatch`.
        """
        return await self.send(prepare_dispatch(target, job_name, payload, **options))

    async def send(
        self,
        dispatch: Dispatch,
        *,
        deadline_s: float | None = None,
        first_endpoint: int | None = None,
    ) -> DispatchResult:
        """Send a prepared job, possibly again; see `AsyncClient.call` for the arguments.

        Raises:
            BrokerError: The broker refused it, or its fate is unknown (`definite` is false).
        """
        call: Call[Any] = dispatch.call()
        answer: Answer[Any] = await self._client.call(
            call,
            request_id=dispatch.request_id,
            deadline_s=deadline_s,
            first_endpoint=first_endpoint,
        )
        return dispatch.read(answer)


class SyncDispatcher:
    """Dispatches from code without an event loop, such as a handler."""

    def __init__(self, client: SyncClient) -> None:
        """Use a client, which stays the caller's."""
        self._client = client

    def dispatch(
        self,
        target: Application | ConnectionSettings,
        job_name: str,
        payload: object,
        **options: Unpack[DispatchOptions],
    ) -> DispatchResult:
        """Prepare and send a job; the options are those of `prepare_dispatch`.

        Raises:
            BrokerError: The broker refused it, or its fate is unknown (`definite` is false).
            ValueError: See `prepare_dispatch`.
        """
        dispatch = prepare_dispatch(target, job_name, payload, **options)
        call: Call[Any] = dispatch.call()
        answer: Answer[Any] = self._client.call(call, request_id=dispatch.request_id)
        return dispatch.read(answer)
