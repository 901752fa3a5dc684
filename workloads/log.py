"""The workload `log`: appends to keys, and reads of them by offset from any node's own copy.

A `send` appends one record, or one transaction of one to four records over several keys and both
queues. A `poll` fetches all keys that its client has assigned to itself, from positions that the
client holds, as its node has them: maybe behind, never wrong. A `crash` makes a client forget its
positions. A share of the sends is made once more, a little later and through any node, as a client
would whose answer was lost. At the end one reader of each node reads every key from its beginning.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Final

import msgspec
import trio

from ..histories.log_ops import (
    ASSIGN,
    CRASH,
    FINAL_READ,
    POLL,
    SEND,
    SEND_AGAIN,
    Assigned,
    FinalRead,
    Poll,
    Polled,
    ReadEntry,
    ReadRecord,
    Send,
    Sent,
    SentRecord,
    record_id,
)
from ..system.client import (
    AsyncClient,
    BrokerError,
    Endpoint,
    FetchedPartition,
    FetchFrom,
    PushResult,
    calls,
    fetching,
)
from .activity import Load
from .log_keys import QUEUES, Keys, partition_of, payload_of, queue_of, read_payload
from .pinned import (
    ClientRecorder,
    PinnedClient,
    Repeats,
    keep_busy,
    make_clients,
    outcome_of,
    write_at_last,
)

OPTIONS: Final[Mapping[str, object]] = {"dedupWindowSeconds": 86_400}
QUIET_POLLS: Final = 2
"""A final reader is done when so many polls in a row brought nothing and nothing is missing."""
QUIET_POLLS_MAX: Final = 8
"""And also after so many, whatever is missing."""

_WAIT_MS: Final = 100
_FINAL_WAIT_MS: Final = 1000
_BYTES: Final = 512
_FINAL_BYTES: Final = 1 << 16
_SHARE_ASSIGN: Final = 0.08
_SHARE_CRASH: Final = 0.02
_TXN_RECORDS_MAX: Final = 4
_PAUSE_S: Final = 0.2


class Reader:
    """A client and the positions that it holds.

    Attributes:
        client: The client.
        positions: By key, the first offset not read yet; kept while the key is not assigned.
        assigned: The keys that it polls.
        seen: Records that it read, if it keeps them.
    """

    def __init__(self, client: PinnedClient) -> None:
        self.client = client
        self.positions: dict[int, int] = {}
        self.assigned: tuple[int, ...] = ()
        self.seen: set[SentRecord] = set()

    def assign(self, keys: tuple[int, ...], final: bool = False) -> None:
        """Poll these keys from now on, and write that down."""
        value = msgspec.to_builtins(Assigned(keys=keys, final=final))
        op = self.client.invoke(ASSIGN, value)
        self.assigned = keys
        self.client.complete(op, "ok", value)

    def crash(self) -> None:
        """Forget everything and go on as another process, and write that down."""
        op = self.client.invoke(CRASH)
        self.positions, self.assigned = {}, ()
        self.client.complete(op, "info")

    async def poll(self, final: bool = False) -> Polled | None:
        """Read on in all assigned keys; None if there was no answer.

        Positions move only when the whole answer is there.
        """
        wait_ms = _FINAL_WAIT_MS if final else _WAIT_MS
        positions = tuple((key, self.positions.get(key, 0)) for key in self.assigned)
        asked = Poll(positions=positions, wait_ms=wait_ms, final=final)
        op = self.client.invoke(POLL, msgspec.to_builtins(asked))
        size = _FINAL_BYTES if final else _BYTES
        wanted = [
            FetchFrom(queue_of(key), partition_of(key), offset, size) for key, offset in positions
        ]
        try:
            fetched = await self.client.ask(fetching.fetch(wanted, wait_s=wait_ms / 1000))
        except BrokerError as error:
            self.client.complete(op, "fail", error=str(error))
            return None
        entries = tuple(map(_entry, positions, fetched.entries))
        self.client.complete(op, "ok", msgspec.to_builtins(Polled(entries=entries)))
        for entry in entries:
            if entry.records:
                self.positions[entry.key] = entry.records[-1].offset + 1
        return Polled(entries=entries)


class LogActivity:
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
        self._keys = Keys()
        self._acked: set[SentRecord] = set()
        self._repeats = Repeats(endpoints, recorder, load)
        self._readers = [Reader(client) for client in make_clients(endpoints, recorder, load)]

    async def prepare(self) -> None:
        """Create both queues."""
        client = AsyncClient(tuple(self._endpoints.values()))
        try:
            for queue in QUEUES:
                await client.configure(queue, OPTIONS)
        finally:
            await client.aclose()

    async def load(self) -> None:
        """Send and poll."""
        async with trio.open_nursery() as self._repeats.nursery, trio.open_nursery() as nursery:
            for reader in self._readers:
                stream = reader.client.random
                act = partial(self._act, reader)
                nursery.start_soon(keep_busy, self._load, len(self._readers), stream, act)
        self._repeats.nursery = None

    async def _act(self, reader: Reader) -> None:
        stream = reader.client.random
        roll = stream.random()
        if roll < _SHARE_CRASH:
            reader.crash()
        elif roll < _SHARE_CRASH + _SHARE_ASSIGN or not reader.assigned:
            reader.assign(self._keys.some(stream))
        elif stream.random() < 0.5:
            await self._send(reader.client)
        else:
            await reader.poll()

    async def _send(self, client: PinnedClient) -> bool:
        """Send what comes next; returns whether that was acknowledged."""
        count = client.random.randint(1, _TXN_RECORDS_MAX) if self._load.txn else 1
        records = tuple(self._keys.take(client.random) for _ in range(count))
        was_sent = await self._append(client, SEND, records)
        if was_sent:
            self._acked.update(records)
            again = partial(self._append_again, records)
            self._repeats.maybe(
                self._load.resend, self._load.resend_after_s_max, client.random, again
            )
        return was_sent

    async def _append_again(self, records: tuple[SentRecord, ...], client: PinnedClient) -> None:
        await self._append(client, SEND_AGAIN, records)

    async def _append(self, client: PinnedClient, f: str, records: tuple[SentRecord, ...]) -> bool:
        """Send records; returns whether that was acknowledged."""
        asked = Send(records=records, txn=self._load.txn)
        op = client.invoke(f, msgspec.to_builtins(asked))
        try:
            if self._load.txn:
                result = await client.ask(calls.transaction({"operations": _operations(records)}))
                if not result.success:
                    # A repeat by the node itself rolls back as a duplicate of what it committed.
                    known = result.reason != "duplicate"
                    client.complete(op, "fail" if known else "info", error=result.error)
                    return False
                sent = Sent()
            else:
                pushed = await client.ask(calls.push([_item(record) for record in records]))
                refused = [result for result in pushed if result.offset is None]
                if refused:
                    client.complete(op, "fail", error=refused[0].error or refused[0].status)
                    return False
                sent = _sent(pushed)
        except BrokerError as error:
            client.complete(op, outcome_of(error), error=str(error))
            return False
        client.complete(op, "ok", msgspec.to_builtins(sent))
        return True

    async def finish(self) -> None:
        """Read every key from its beginning, at every node."""
        await trio.sleep(self._load.settle_s)
        async with trio.open_nursery() as nursery:
            for reader in self._readers:
                nursery.start_soon(write_at_last, partial(self._send, reader.client))
        for reader in self._readers:
            await reader.client.aclose()
        async with trio.open_nursery() as nursery:
            for node, endpoint in self._endpoints.items():
                client = PinnedClient(node, 0, endpoint, self._recorder, self._load, "final-")
                nursery.start_soon(self._read_all, Reader(client))

    async def _read_all(self, reader: Reader) -> None:
        """Read one node's records to their end, and write down whether that was reached."""
        op = self._recorder.invoke(FINAL_READ, node=reader.client.node)
        reader.assign(self._keys.every(), final=True)
        is_done = False
        with trio.move_on_after(self._load.final_s):
            await self._read_to_end(reader)
            is_done = True
        missing = len(self._acked - reader.seen)
        value = msgspec.to_builtins(FinalRead(records=len(reader.seen), missing=missing))
        if is_done:
            self._recorder.complete(op, "ok", value, reader.client.node)
        else:
            text = f"not at the end after {self._load.final_s:g} s"
            self._recorder.complete(op, "info", value, reader.client.node, text)
        await reader.client.aclose()

    async def _read_to_end(self, reader: Reader) -> None:
        quiet = 0
        while True:
            await trio.lowlevel.checkpoint()
            begun_s = trio.current_time()
            with trio.CancelScope(shield=True):
                polled = await reader.poll(final=True)
            records = [
                record for entry in (polled.entries if polled else ()) for record in entry.records
            ]
            for record in records:
                if record.key is not None and record.value is not None:
                    reader.seen.add(SentRecord(record.key, record.value))
            waited_s = trio.current_time() - begun_s
            if records:
                quiet = 0
            elif polled is not None and waited_s >= _FINAL_WAIT_MS / 2000:
                quiet += 1
                is_whole = self._acked <= reader.seen
                if quiet >= QUIET_POLLS_MAX or (is_whole and quiet >= QUIET_POLLS):
                    return
            else:
                await trio.sleep(_PAUSE_S)


def _item(record: SentRecord) -> dict[str, object]:
    return {
        "queue": queue_of(record.key),
        "partition": partition_of(record.key),
        "transactionId": record_id(record.key, record.value),
        "payload": msgspec.Raw(payload_of(record)),
    }


def _operations(records: Sequence[SentRecord]) -> list[dict[str, object]]:
    return [{"type": "push", **_item(record)} for record in records]


def _sent(pushed: Sequence[PushResult]) -> Sent:
    offsets = tuple(result.offset for result in pushed if result.offset is not None)
    return Sent(offsets=offsets, duplicates=sum(r.status == "duplicate" for r in pushed))


def _entry(position: tuple[int, int], found: FetchedPartition) -> ReadEntry:
    key, start = position
    records = tuple(
        ReadRecord(record.offset, record.transaction_id, *read_payload(bytes(record.payload)))
        for record in found.records
    )
    return ReadEntry(
        key=key, start=start, hwm=found.high_watermark, records=records, error=found.error
    )
