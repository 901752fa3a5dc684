"""Dispatching: a job becomes a message, or a timer that becomes one."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import Any, TypedDict, Unpack

from ..client import Answer, AsyncClient, BrokerError, Call, PushResult, SyncClient, TimerResult
from ..client import calls as broker
from .application import Application
from .payload import (
    Envelope,
    JobBody,
    encode_data,
    encode_payload,
    partition_of,
    payload_digest,
)
from .settings import ConnectionSettings


@dataclass(frozen=True, slots=True)
class DispatchResult:
    """What became of a dispatch.

    Attributes:
        job_id: The job.
        status: `queued`, `duplicate`, `scheduled` or `rescheduled`.
        partition: Partition it goes to.
        offset: Offset of its message; None when it is delayed.
        digest: SHA-256 of its data, hex.
        answered_by: The node that answered, `host:port`.
        tries: How many tries it took.
    """

    job_id: str
    status: str
    partition: str
    offset: int | None
    digest: str
    answered_by: str
    tries: int


@dataclass(frozen=True, slots=True)
class Dispatch:
    """A job ready to be sent, any number of times under the same ids.

    Attributes:
        queue: Queue it goes to.
        body: The job.
        delay_s: Delay; at 0 it is pushed at once.
        request_id: Id that every try carries.
    """

    queue: str
    body: JobBody
    delay_s: float
    request_id: str

    @property
    def partition(self) -> str:
        """Partition it goes to."""
        assert self.body.partition is not None, f"job {self.body.id} without a partition"
        return self.body.partition

    @property
    def digest(self) -> str:
        """SHA-256 of its data, hex."""
        return payload_digest(self.body.data)

    def call(self) -> Call[tuple[PushResult, ...]] | Call[tuple[TimerResult, ...]]:
        """What to ask the broker."""
        envelope = Envelope(self.body)
        if self.delay_s > 0:
            operation = broker.schedule_operation(
                self.queue,
                f"delay:{self.body.id}",
                delay_s=self.delay_s,
                txn=self.body.id,
                partition=self.partition,
                payload=encode_payload(envelope),
            )
            return broker.timers([operation])
        item = {
            "queue": self.queue,
            "partition": self.partition,
            "transactionId": self.body.id,
            "payload": envelope,
        }
        return broker.push([item])

    def read(
        self, answer: Answer[tuple[PushResult, ...]] | Answer[tuple[TimerResult, ...]]
    ) -> DispatchResult:
        """What the answer says.

        Raises:
            BrokerError: The broker refused the job.
        """
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


class DispatchOptions(TypedDict, total=False):
    """What a dispatch may say beyond name and payload.

    Attributes:
        job_id: Its id; absent or None mints a UUID.
        delay_s: Delay, seconds.
        tries: Tries of this job; absent or None leaves it to the registration.
        timeout_s: Timeout of this job; absent or None leaves it to the registration.
        backoff_s: Back-off of this job; absent or None leaves it to the registration.
        partition: Its own ordering key; absent or None spreads by id.
        request_id: Id that every try carries; absent or None mints one.
    """

    job_id: str | None
    delay_s: float
    tries: int | None
    timeout_s: float | None
    backoff_s: tuple[float, ...] | None
    partition: str | None
    request_id: str | None


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
        ValueError: The application has no connection or no such job, or a number is negative.
        TypeError: The payload holds something that JSON cannot.
    """
    if isinstance(target, Application):
        if target.connection is None:
            raise ValueError("the application has no connection settings")
        if target.find(job_name) is None:
            names = ", ".join(target.job_names)
            raise ValueError(f"unknown job {job_name!r}; choose from: {names}")
        settings = target.connection
    else:
        settings = target
    delay_s = options.get("delay_s", 0.0)
    if delay_s < 0:
        raise ValueError(f"delay_s is {delay_s:g}; allowed: 0 or more")
    chosen = options.get("job_id") or str(uuid.uuid4())
    body = JobBody(
        job=job_name,
        id=chosen,
        data=encode_data(payload),
        partition=options.get("partition") or partition_of(chosen, settings.partitions),
        tries=options.get("tries"),
        timeout_s=options.get("timeout_s"),
        backoff_s=options.get("backoff_s"),
    )
    request_id = options.get("request_id") or uuid.uuid4().hex
    return Dispatch(settings.queue, body, delay_s, request_id)


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
