"""Stored messages: as consumers see one, and as the log keeps runs of them."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import msgspec

from .mint import MARK_STEP, marked_id, marked_ids
from .rows import PAYLOADS, placed

if TYPE_CHECKING:
    from .rows import MessageStore


class Message(msgspec.Struct, frozen=True, gc=False):
    """One entry of a partition's log.

    Attributes:
        offset: Place in the partition, gapless from 0.
        message_id: UUIDv7, increasing per partition.
        transaction_id: The producer's name of it.
        created_us: UTC microseconds, the stamp of the batch that stored it.
        payload: JSON bytes.
        trace_id: Echoed to consumers.
        producer_sub: Who pushed it, as the token said.
    """

    offset: int
    message_id: str
    transaction_id: str
    created_us: int
    payload: bytes
    trace_id: str | None = None
    producer_sub: str | None = None


class Body(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """What only consumers need of a run: the value of its payload row.

    `traces` and `producers` are empty when no message has one.
    """

    payloads: tuple[bytes, ...]
    traces: tuple[str | None, ...] = ()
    producers: tuple[str | None, ...] = ()


class Run(msgspec.Struct, eq=False, gc=False):
    """Messages that one command appended to one partition, one behind the other.

    Not tracked by the garbage collector: it refers to nothing that could refer to it.

    Attributes:
        first: Offset of the first.
        created_us: Stamp of all.
        names: Their transaction ids, unique in the run; the text itself for a run of one.
        size: Bytes of all payloads.
        mark: The first message's id, as its mark (the others follow); a fired timer's message,
            which had its id before, has that text.
        request: Mark of the request that pushed it, 0 for none.
        body: The rest; None once it is only in the message store, or nowhere any longer.
        ids: The messages' ids, as long as the body is here; they can be made anew.
    """

    first: int
    created_us: int
    names: tuple[str, ...] | str
    size: int
    mark: int | str
    request: int
    body: Body | None = None
    ids: tuple[str, ...] | None = None

    @property
    def count(self) -> int:
        """How many messages."""
        return 1 if isinstance(self.names, str) else len(self.names)

    @property
    def all_names(self) -> tuple[str, ...]:
        """The transaction ids."""
        return (self.names,) if isinstance(self.names, str) else self.names

    def name_at(self, offset: int) -> str:
        """One message's transaction id."""
        return self.names if isinstance(self.names, str) else self.names[offset - self.first]

    def place_of(self, name: str) -> int | None:
        """The offset of a transaction id."""
        if isinstance(self.names, str):
            return self.first if self.names == name else None
        return self.first + self.names.index(name) if name in self.names else None

    def id_at(self, offset: int) -> str:
        """One message's id."""
        if isinstance(self.mark, str):
            return self.mark
        return marked_id(self.created_us, self.mark + (offset - self.first) * MARK_STEP)

    def weight(self, first: int, end: int) -> int:
        """Bytes of the payloads of an offset range; each message counts alike.

        The weights of adjoining ranges add up exactly.
        """
        count = self.count
        return self.size * (end - self.first) // count - self.size * (first - self.first) // count

    def messages(
        self, partition: int, first: int, end: int, store: MessageStore | None
    ) -> list[Message]:
        """The messages of an offset range inside the run. Cost: one read of the store at most."""
        body = self.body or self.stored_body(partition, store)
        ids = self.ids or self._made_ids()
        names, payloads, created_us = self.names, body.payloads, self.created_us
        if isinstance(names, str):
            trace = body.traces[0] if body.traces else None
            producer = body.producers[0] if body.producers else None
            return [Message(first, ids[0], names, created_us, payloads[0], trace, producer)]
        if not body.traces and not body.producers:
            return [
                Message(offset, ids[place], names[place], created_us, payloads[place])
                for place, offset in enumerate(range(first, end), start=first - self.first)
            ]
        traces = body.traces or (None,) * len(payloads)
        producers = body.producers or (None,) * len(payloads)
        return [
            Message(
                offset,
                ids[place],
                names[place],
                created_us,
                payloads[place],
                traces[place],
                producers[place],
            )
            for place, offset in enumerate(range(first, end), start=first - self.first)
        ]

    def _made_ids(self) -> Sequence[str]:
        if isinstance(self.mark, str):
            return (self.mark,)
        return marked_ids(self.created_us, self.mark, self.count)

    def lose_body(self) -> None:
        """The body is in the message store, or is not needed any longer."""
        self.body = self.ids = None

    def stored_body(self, partition: int, store: MessageStore | None) -> Body:
        """The body, read from the store."""
        key = placed(PAYLOADS, partition, self.first)
        assert store is not None, f"payload {key!r} is neither in memory nor in a store"
        return _BODY_DECODER.decode(store.read(key))


def body_of(
    payloads: Sequence[bytes],
    traces: Sequence[str | None],
    producers: Sequence[str | None],
) -> Body:
    """The body of messages."""
    return Body(
        tuple(payloads),
        tuple(traces) if any(trace is not None for trace in traces) else (),
        tuple(producers) if any(producer is not None for producer in producers) else (),
    )


def request_mark(request_id: str) -> int:
    """56 bits of BLAKE2b that stand for a request in the memory of its messages; 0 for none."""
    if not request_id:
        return 0
    return int.from_bytes(hashlib.blake2b(request_id.encode(), digest_size=7).digest(), "big") or 1


_BODY_DECODER: Final = msgspec.msgpack.Decoder(Body)
