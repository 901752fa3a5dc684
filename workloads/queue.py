"""The workload `queue`: messages go in one by one and come out in leased batches, each once.

Half of the operations enqueue one message into a random partition. The other half dequeue: one pop
(from any partition or one, waiting not at all, 200 ms or 1 s, 1 to 5 messages), then one ack of all
that it delivered, each under its lease. A share of the enqueues and of the acks is asked for once
more, a little later and through any node, as a client would whose answer was lost. A share of the
pops waits for two seconds while its client hangs up before. At the end every client writes once
more, and pops until it has found nothing several times in a row, for longer than a lease.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final

import msgspec
import trio

from ..histories.ops import DRAIN, OpType
from ..histories.queue_ops import (
    ACK_AGAIN,
    DEQUEUE,
    ENQUEUE,
    ENQUEUE_AGAIN,
    SETTLED,
    AckAgain,
    AckedAgain,
    AckOutcome,
    Delivery,
    Dequeue,
    Dequeued,
    Enqueue,
    Enqueued,
    digest_of,
)
from ..system.client import AsyncClient, BrokerError, Call, Endpoint, Message, calls
from ..system.client.records import Popped
from .activity import Load
from .hangup import ask_and_hang_up
from .pinned import (
    ClientRecorder,
    PinnedClient,
    Repeats,
    keep_busy,
    make_clients,
    outcome_of,
    write_at_last,
)

QUEUE: Final = "messages"
GROUP: Final = "readers"
OPTIONS: Final[Mapping[str, object]] = {
    "leaseTime": 5,
    "retryLimit": 1_000_000,
    "dedupWindowSeconds": 86_400,
    "deadLetterQueue": False,
    "dlqAfterMaxRetries": False,
}
EMPTIES: Final = 5
"""A client has drained when it found nothing in so many pops beyond one lease's seconds."""

_WAITS_MS: Final = (0, 200, 1000)
_BATCH_MAX: Final = 5
_DRAIN_BATCH: Final = 20
_DRAIN_WAIT_MS: Final = 1000
_PAUSE_S: Final = 0.2
_REACK_S_MAX: Final = 2.0
_HELD_LEASES: Final = (0.1, 0.7)
_HANG_UP_WAIT_MS: Final = 2000
_HANG_UP_MS_MAX: Final = 600


@dataclass(frozen=True, slots=True)
class Drained:
    """How one client's drain ended."""

    empties: int
    wanted: int


class QueueActivity:
    """Runs the workload.

    Args:
        load: Its size.
        endpoints: Where each node serves clients.
        recorder: Where operations go.
    """

    def __init__(
        self, load: Load, endpoints: Mapping[str, Endpoint], recorder: ClientRecorder
    ) -> None:
        self._load = load
        self._endpoints = endpoints
        self._recorder = recorder
        self._numbers = itertools.count()
        self._hang_ups = itertools.count()
        self._clients = make_clients(endpoints, recorder, load)
        self._repeats = Repeats(endpoints, recorder, load)

    async def prepare(self) -> None:
        """Configure the queue so that nothing leaves it but by an ack."""
        client = AsyncClient(tuple(self._endpoints.values()))
        try:
            await client.configure(QUEUE, OPTIONS)
        finally:
            await client.aclose()

    async def load(self) -> None:
        """Enqueue and dequeue."""
        async with trio.open_nursery() as self._repeats.nursery, trio.open_nursery() as nursery:
            for client in self._clients:
                act = partial(self._act, client)
                nursery.start_soon(keep_busy, self._load, len(self._clients), client.random, act)
        self._repeats.nursery = None

    async def _act(self, client: PinnedClient) -> None:
        if client.random.random() < 0.5:
            await self._enqueue(client)
        else:
            await self._dequeue(client, self._next_pop(client))

    def _next_pop(self, client: PinnedClient) -> Dequeue:
        stream = client.random
        pinned = str(stream.randrange(self._load.partitions)) if stream.random() < 0.5 else None
        asked = Dequeue(
            partition=pinned,
            batch=stream.randint(1, _BATCH_MAX),
            wait_ms=stream.choice(_WAITS_MS),
            lease_s=self._load.lease_s,
        )
        if stream.random() < self._load.hang_up:
            after_ms = stream.randint(1, _HANG_UP_MS_MAX)
            return msgspec.structs.replace(asked, wait_ms=_HANG_UP_WAIT_MS, hang_up_ms=after_ms)
        return asked

    async def _enqueue(self, client: PinnedClient) -> bool:
        """Enqueue the next message; returns whether that was acknowledged."""
        id_ = f"m{next(self._numbers)}"
        where = str(client.random.randrange(self._load.partitions))
        was_put = await self._put(client, ENQUEUE, id_, where)
        if was_put:
            again = partial(self._put_again, id_, where)
            self._repeats.maybe(
                self._load.resend, self._load.resend_after_s_max, client.random, again
            )
        return was_put

    async def _put_again(self, id_: str, where: str, client: PinnedClient) -> None:
        await self._put(client, ENQUEUE_AGAIN, id_, where)

    async def _put(self, client: PinnedClient, f: str, id_: str, where: str) -> bool:
        """Push one message; returns whether that was acknowledged."""
        payload = make_payload(id_)
        value = Enqueue(id=id_, partition=where, digest=digest_of(payload))
        op = client.invoke(f, msgspec.to_builtins(value))
        item = {
            "queue": QUEUE,
            "partition": where,
            "transactionId": id_,
            "payload": msgspec.Raw(payload),
        }
        try:
            (result,) = await client.ask(calls.push([item]))
        except BrokerError as error:
            client.complete(op, outcome_of(error), error=str(error))
            return False
        if result.error is not None or result.status not in ("queued", "duplicate"):
            client.complete(op, "fail", error=result.error or result.status)
            return False
        done = Enqueued(status=result.status, offset=result.offset)
        client.complete(op, "ok", msgspec.to_builtins(done))
        return True

    async def _dequeue(self, client: PinnedClient, asked: Dequeue) -> bool | None:
        """Pop and ack; returns whether it found something, None if there was no answer."""
        op = client.invoke(DEQUEUE, msgspec.to_builtins(asked))
        call = calls.pop(
            QUEUE,
            group=GROUP,
            partition=asked.partition,
            batch=asked.batch,
            lease_s=asked.lease_s,
            wait_s=asked.wait_ms / 1000,
        )
        try:
            popped = await self._pop(client, call, asked.hang_up_ms)
        except BrokerError as error:
            # Whatever it claimed comes back when its lease ends; nobody has read it.
            client.complete(op, "fail", error=str(error))
            return None
        popped_ns = time.monotonic_ns()
        messages = popped.messages
        type_: OpType = "ok"
        outcomes: list[AckOutcome] = []
        error_text = None
        if messages:
            if not asked.final and client.random.random() < self._load.hold:
                # As a worker does that works on what it got, while others look for more.
                await trio.sleep(asked.lease_s * client.random.uniform(*_HELD_LEASES))
            acked, outcomes, error_text = await self._ack(client, messages)
            # What was delivered was delivered, also where its ack certainly failed.
            type_ = "info" if acked == "info" else "ok"
        deliveries = tuple(map(_delivery, messages, outcomes))
        done = Dequeued(popped_ns=popped_ns, deliveries=deliveries)
        client.complete(op, type_, msgspec.to_builtins(done), error_text)
        if outcomes and set(outcomes) <= SETTLED:
            again = partial(self._ack_again, messages)
            self._repeats.maybe(self._load.reack, _REACK_S_MAX, client.random, again)
        return bool(messages)

    async def _pop(
        self, client: PinnedClient, call: Call[Popped], hang_up_ms: int | None
    ) -> Popped:
        """Pop, and hang up meanwhile if asked to; empty if nobody got an answer then.

        Raises:
            BrokerError: It was refused, or there was no answer.
        """
        if hang_up_ms is None:
            return await client.ask(call)
        endpoint, timeout_s = self._endpoints[client.node], self._load.try_timeout_s + call.wait_s
        request_id = f"{client.process}-{next(self._hang_ups)}"
        popped = await ask_and_hang_up(endpoint, call, request_id, hang_up_ms / 1000, timeout_s)
        return Popped() if popped is None else popped

    async def _ack_again(self, messages: tuple[Message, ...], client: PinnedClient) -> None:
        asked = AckAgain(
            partition=messages[0].partition,
            lease=messages[0].lease_id,
            ids=tuple(message.transaction_id for message in messages),
        )
        op = client.invoke(ACK_AGAIN, msgspec.to_builtins(asked))
        type_, outcomes, error_text = await self._ack(client, messages)
        done = AckedAgain(acks=tuple(outcomes))
        client.complete(op, type_, msgspec.to_builtins(done), error_text)

    async def _ack(
        self, client: PinnedClient, messages: tuple[Message, ...]
    ) -> tuple[OpType, list[AckOutcome], str | None]:
        """Ack all; returns how that ended, what became of each, and the first error."""
        acks = [
            {
                "transactionId": message.transaction_id,
                "partitionId": message.partition_id,
                "status": "completed",
                "leaseId": message.lease_id,
            }
            for message in messages
        ]
        try:
            results = await client.ask(calls.ack_batch(acks, group=GROUP))
        except BrokerError as error:
            if outcome_of(error) == "fail":
                return "fail", ["rejected"] * len(messages), str(error)
            return "info", ["unknown"] * len(messages), str(error)
        outcomes: list[AckOutcome] = ["missing"] * len(messages)
        errors: list[str] = []
        for result in results:
            if 0 <= result.index < len(outcomes):
                accepted: AckOutcome = "noop" if result.noop else "acked"
                outcomes[result.index] = accepted if result.success else "rejected"
                if result.error:
                    errors.append(result.error)
        return "ok", outcomes, errors[0] if errors else None

    async def finish(self) -> None:
        """Let every client pop until nothing has come for longer than a lease."""
        await trio.sleep(self._load.settle_s)
        async with trio.open_nursery() as nursery:
            for client in self._clients:
                nursery.start_soon(write_at_last, partial(self._enqueue, client))
        op = self._recorder.invoke(DRAIN)
        ends: list[Drained] = []
        with trio.move_on_after(self._load.final_s):
            async with trio.open_nursery() as nursery:
                for client in self._clients:
                    nursery.start_soon(self._drain, client, ends)
        short = len(self._clients) - len(ends)
        if short:
            text = f"after {self._load.final_s:g} s: {short} clients still found messages"
            self._recorder.complete(op, "info", error=text)
        else:
            self._recorder.complete(op, "ok", {"clients": len(ends)})
        for client in self._clients:
            await client.aclose()

    async def _drain(self, client: PinnedClient, ends: list[Drained]) -> None:
        wanted, empties = self._load.lease_s + EMPTIES, 0
        asked = Dequeue(
            partition=None,
            batch=_DRAIN_BATCH,
            wait_ms=_DRAIN_WAIT_MS,
            lease_s=self._load.lease_s,
            final=True,
        )
        while empties < wanted:
            await trio.lowlevel.checkpoint()
            begun_s = trio.current_time()
            # An operation is never cut off: what it took would be nobody's.
            with trio.CancelScope(shield=True):
                found = await self._dequeue(client, asked)
            waited_s = trio.current_time() - begun_s
            # A node that has lost its leader may answer a waiting pop early; that is no emptiness.
            is_empty = found is False and waited_s >= _DRAIN_WAIT_MS / 2000
            empties = empties + 1 if is_empty else 0
            if not found and not is_empty:
                await trio.sleep(_PAUSE_S)
        ends.append(Drained(empties, wanted))


def make_payload(id_: str) -> bytes:
    """Return the JSON of a message; its padding differs from message to message."""
    return msgspec.json.encode({"id": id_, "pad": id_ * (1 + hash_of(id_) % 8)})


def hash_of(id_: str) -> int:
    """Return a number that depends on the id alone."""
    return int(digest_of(id_.encode()), 16)


def _delivery(message: Message, ack: AckOutcome) -> Delivery:
    return Delivery(
        id=message.transaction_id,
        partition=message.partition,
        offset=message.offset,
        lease=message.lease_id,
        attempt=message.delivery_attempt,
        digest=digest_of(bytes(message.data)),
        ack=ack,
    )
