"""Producers: they dispatch a seed's jobs through any node, and record what they asked and heard."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

import trio

from ..histories.attempts import payload_digest
from ..histories.ops import DISPATCH, Json, OpType
from ..system.client import BrokerError
from ..system.jobs import ConnectionSettings, Dispatch, DispatchResult, prepare_dispatch
from .jobs import JOB_NAME, Arrival

_OPEN_MAX: Final = 1024


@dataclass(frozen=True, slots=True)
class OpenOp:
    """An operation that was invoked and has not completed."""

    f: str
    process: int | str


class OpRecorder(Protocol):
    """Where operations are written down; an invocation is stored before this returns."""

    def invoke(self, f: str, value: Json = None, node: str | None = None) -> OpenOp:
        """Record that `f` is about to be asked."""

    def complete(
        self,
        op: OpenOp,
        type_: OpType,
        value: Json = None,
        node: str | None = None,
        error: str | None = None,
    ) -> None:
        """Record how it ended."""


class Sender(Protocol):
    """Sends one prepared dispatch, to one node first and to any other until its deadline."""

    async def send(
        self,
        dispatch: Dispatch,
        *,
        deadline_s: float | None = None,
        first_endpoint: int | None = None,
    ) -> DispatchResult:
        """Send it.

        Raises:
            BrokerError: It was refused, or its fate is unknown.
        """


class Producer:
    """One client that dispatches jobs when they are due.

    It does not wait for an answer before the next dispatch, so that a node that hangs holds up its
    own requests alone; with 1,024 open ones it waits.

    Args:
        sender: Sends a dispatch.
        recorder: Where operations go.
        connection: Queue and partitions.
        nodes: Name of each endpoint, in the order of `connection.endpoints`.
    """

    def __init__(
        self,
        sender: Sender,
        recorder: OpRecorder,
        connection: ConnectionSettings,
        nodes: Sequence[str],
    ) -> None:
        self._sender = sender
        self._recorder = recorder
        self._connection = connection
        self._nodes = nodes
        self._names: Mapping[str, str] = {
            f"{host}:{port}": name
            for (host, port), name in zip(connection.endpoints, nodes, strict=True)
        }
        self._open = trio.Semaphore(_OPEN_MAX)

    async def run(self, arrivals: Iterable[Arrival]) -> None:
        """Dispatch everything on time, counted from now; returns when all answers are in."""
        begun_s = trio.current_time()
        async with trio.open_nursery() as nursery:
            for arrival in arrivals:
                await trio.sleep_until(begun_s + arrival.at_s)
                await self._open.acquire()
                nursery.start_soon(self._dispatch, arrival)

    async def _dispatch(self, arrival: Arrival) -> None:
        """Send one job, and perhaps once more, as a client would whose answer was lost."""
        begun_s, due_ns = trio.current_time(), None
        if arrival.delay_s > 0:
            due_ns = time.monotonic_ns() + round(arrival.delay_s * 1e9)
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._send, arrival, arrival.via, due_ns, False)
                if arrival.resend_after_s is not None:
                    await trio.sleep_until(begun_s + arrival.resend_after_s)
                    nursery.start_soon(self._send, arrival, arrival.resend_via, due_ns, True)
        finally:
            self._open.release()

    async def _send(self, arrival: Arrival, via: int, due_ns: int | None, resend: bool) -> None:
        dispatch = self._prepare(arrival, due_ns)
        value: dict[str, Json] = {
            "job": arrival.job,
            "kind": arrival.kind.value,
            "queue": dispatch.queue,
            "partition": dispatch.partition,
            "tries": arrival.tries,
            "backoff_s": [*arrival.backoff_s],
            "timeout_s": arrival.timeout_s,
            "delay_s": dispatch.delay_s,
            "not_before_ns": due_ns,
            "digest": payload_digest(arrival.payload()),
            "resend": resend,
        }
        op = self._recorder.invoke(DISPATCH, value, self._nodes[via])
        try:
            result = await self._sender.send(dispatch, first_endpoint=via)
        except BrokerError as error:
            type_: OpType = "fail" if error.definite else "info"
            self._recorder.complete(op, type_, error=str(error))
            return
        node = self._names.get(result.answered_by)
        self._recorder.complete(op, "ok", {"status": result.status, "offset": result.offset}, node)

    def _prepare(self, arrival: Arrival, due_ns: int | None) -> Dispatch:
        """Make the message. A job that is due later keeps its due time when it is sent again."""
        delay_s = 0.0
        if due_ns is not None:
            left_s = (due_ns - time.monotonic_ns()) / 1e9
            delay_s = math.ceil(max(0.0, left_s) * 1000) / 1000
        return prepare_dispatch(
            self._connection,
            JOB_NAME,
            arrival.payload(),
            job_id=arrival.job,
            delay_s=delay_s,
            tries=arrival.tries,
            timeout_s=arrival.timeout_s,
            backoff_s=arrival.backoff_s,
        )
