"""Sends a lane's messages and records what was asked and answered."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, Protocol, TypeVar

import msgspec
import trio

from ...histories.ops import DISPATCH, Json, OpType
from ...system.client import Answer, BrokerError, Call, PushResult
from ...system.client.calls import push
from ...system.jobs import ConnectionSettings, prepare_dispatch
from ..producer import OpRecorder
from .application import LANE_JOB
from .plan import LaneJob

DEFAULT_PARTITION: Final = "p-0000"
_SIDE_BY_SIDE: Final = 8
"""So many dispatches are open at once where order does not matter."""

T = TypeVar("T")


class Caller(Protocol):
    """Makes one call of the broker; `AsyncClient` is one."""

    async def call(
        self, call: Call[T], *, request_id: str | None = None, deadline_s: float | None = None
    ) -> Answer[T]:
        """Make it, again until the deadline; raises BrokerError."""


class LaneProducer:
    """One client that dispatches a lane's jobs.

    Args:
        caller: Reaches the broker.
        recorder: Where operations go.
        connection: Queue and partitions.
        nodes: Name of each endpoint, `host:port`.
    """

    def __init__(
        self,
        caller: Caller,
        recorder: OpRecorder,
        connection: ConnectionSettings,
        nodes: Mapping[str, str],
    ) -> None:
        self._caller = caller
        self._recorder = recorder
        self._connection = connection
        self._nodes = nodes

    async def send(self, jobs: Sequence[LaneJob], deadline_s: float) -> None:
        """Dispatch jobs; those for one partition in their order, others a few at a time."""
        in_order = [job for job in jobs if job.partition or job.every_s]
        others = [job for job in jobs if not (job.partition or job.every_s)]
        turns = trio.Semaphore(_SIDE_BY_SIDE)

        async def take_turn(job: LaneJob) -> None:
            async with turns:
                await self._send(job, deadline_s)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._send_in_order, in_order, deadline_s)
            for job in others:
                nursery.start_soon(take_turn, job)

    async def _send_in_order(self, jobs: Iterable[LaneJob], deadline_s: float) -> None:
        for job in jobs:
            await self._send(job, deadline_s)
            await trio.sleep(job.every_s)

    async def _send(self, job: LaneJob, deadline_s: float) -> None:
        partition, call = self._call_of(job)
        value: dict[str, Json] = {
            "job": job.id,
            "kind": job.group,
            "queue": self._connection.queue,
            "partition": partition,
            "tries": job.tries,
            "backoff_s": [job.backoff_s] if job.backoff_s else [],
            "timeout_s": job.timeout_s,
            "delay_s": 0.0,
            "not_before_ns": None,
            "digest": job.digest,
            "resend": False,
        }
        op = self._recorder.invoke(DISPATCH, value, next(iter(self._nodes.values())))
        try:
            answer = await self._caller.call(call, deadline_s=deadline_s)
        except BrokerError as error:
            type_: OpType = "fail" if error.definite else "info"
            self._recorder.complete(op, type_, error=str(error))
            return
        result = answer.value[0]
        node = self._nodes.get(str(answer.answered_by))
        if result.status not in ("queued", "duplicate"):
            self._recorder.complete(op, "fail", error=result.error or result.status, node=node)
            return
        told: dict[str, Json] = {"status": result.status, "offset": result.offset}
        self._recorder.complete(op, "ok", told, node)

    def _call_of(self, job: LaneJob) -> tuple[str, Call[tuple[PushResult, ...]]]:
        """Return the partition of a message and the call that sends it."""
        if job.raw is None:
            dispatch = prepare_dispatch(
                self._connection,
                LANE_JOB,
                job.payload,
                job_id=job.id,
                tries=job.tries,
                timeout_s=job.timeout_s,
                backoff_s=(job.backoff_s,) if job.backoff_s else None,
                partition=job.partition or None,
            )
            call: Call[Any] = dispatch.call()
            return dispatch.partition, call
        partition = job.partition or DEFAULT_PARTITION
        item = {
            "queue": self._connection.queue,
            "partition": partition,
            "transactionId": job.id,
            "payload": msgspec.Raw(job.raw),
        }
        return partition, push([item])
