"""Dispatching: a job becomes a message, or a timer that becomes one."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypedDict, TypeVar, Unpack

from ..client import Answer, AsyncClient, BrokerError, Call, PushResult, TimerResult
from ..client import calls as broker
from .application import Application
from .callbacks import CallbackRef, callback_link, reference
from .links import Chain
from .payload import (
    Envelope,
    JobBody,
    encode_data,
    encode_payload,
    partition_of,
    payload_digest,
)
from .settings import ConnectionSettings

C = TypeVar("C")


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
        connection: Connection that it is sent on; None is the dispatcher's own.
    """

    queue: str
    body: JobBody
    delay_s: float
    request_id: str
    connection: str | None = None

    @property
    def partition(self) -> str:
        """Partition it goes to."""
        assert self.body.partition is not None, f"job {self.body.id} without a partition"
        return self.body.partition

    @property
    def digest(self) -> str:
        """SHA-256 of its data, hex."""
        return payload_digest(self.body.data)

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

    def call(self) -> Call[tuple[PushResult, ...]] | Call[tuple[TimerResult, ...]]:
        """What to ask the broker."""
        if self.delay_s > 0:
            return broker.timers([self.timer()])
        return broker.push([self.item()])

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
        connection: Connection to send it on; absent or None takes the registration's.
        catch: A registered job or function that is called once when the job is given up.
    """

    job_id: str | None
    delay_s: float
    tries: int | None
    timeout_s: float | None
    backoff_s: tuple[float, ...] | None
    partition: str | None
    request_id: str | None
    connection: str | None
    catch: CallbackRef | None


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
        ValueError: The application has no connection or no such job, or a number is negative.
        TypeError: The payload holds something that JSON cannot.
    """
    connection = options.get("connection")
    if isinstance(target, Application):
        connection = connection or target.require(job_name).connection
        settings = target.route(connection)
    elif connection or options.get("catch"):
        raise ValueError("connection and catch need an application to be looked up in")
    else:
        settings = target
    delay_s = options.get("delay_s", 0.0)
    if delay_s < 0:
        raise ValueError(f"delay_s is {delay_s:g}; allowed: 0 or more")
    chosen = options.get("job_id") or str(uuid.uuid4())
    data, encrypted = encode_data(payload), False
    chain: Chain | None = None
    if isinstance(target, Application):
        data, encrypted = target.encode_data(job_name, chosen, payload)
        catch = options.get("catch")
        if catch is not None:
            failure = callback_link(target, catch, f"{chosen}.catch", connection)
            chain = Chain(id=chosen, catch=failure)
    body = JobBody(
        job=job_name,
        id=chosen,
        data=data,
        partition=options.get("partition") or partition_of(chosen, settings.partitions),
        tries=options.get("tries"),
        timeout_s=options.get("timeout_s"),
        backoff_s=options.get("backoff_s"),
        chain=chain,
        encrypted=encrypted,
    )
    request_id = options.get("request_id") or uuid.uuid4().hex
    return Dispatch(settings.queue, body, delay_s, request_id, connection)


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


class Dispatcher:
    """Dispatches from trio tasks."""

    def __init__(
        self, client: AsyncClient, routes: Mapping[str, AsyncClient] | None = None
    ) -> None:
        """Use clients, which stay the caller's: one, and one for each further connection."""
        self._client = client
        self._routes = dict(routes or {})

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
            ValueError: There is no client for its connection.
        """
        call: Call[Any] = dispatch.call()
        client = chosen_client(dispatch.connection, self._client, self._routes)
        answer: Answer[Any] = await client.call(
            call,
            request_id=dispatch.request_id,
            deadline_s=deadline_s,
            first_endpoint=first_endpoint,
        )
        return dispatch.read(answer)
