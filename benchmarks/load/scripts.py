"""What a connection says and how it knows that it has been answered, for each system.

Requests are assembled from pieces that were made once: what differs between two requests is a tag
of a few bytes, spliced in by one `join`.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final, Protocol

import msgspec

from .plan import LoadPlan

LEASE_S: Final = 60
EMPTY_MAX: Final = 20
GROUP: Final = "load"
_END: Final = b"\r\n\r\n"
_LENGTH: Final = b"content-length: "
_REDIS_HEAD_LINES: Final = 5
_REDIS_MESSAGE_LINES: Final = 8


class LoadError(Exception):
    """The system answered something that no load may get."""


class Script(Protocol):
    """One connection's part in the load."""

    def opening(self) -> bytes:
        """The next request that begins an exchange."""

    def take(self, answer: bytearray) -> bytes | int | None:
        """Look at what has been received since the last request.

        Returns:
            None when more must come, the next request of the same exchange, or how many messages
            the finished exchange has settled; -1 when there was nothing left to pop.
        """


def http_answer(received: bytearray) -> tuple[int, int] | None:
    """Where the body of a whole answer begins, and its status; None when more must come."""
    end = received.find(_END)
    if end < 0:
        return None
    status = int(received[9:12])
    if status >= 300:
        raise LoadError(received[:600].decode("latin-1"))
    if status == 204:
        return end + 4, status
    at = received.find(_LENGTH, 0, end)
    stop = received.find(b"\r", at)
    length = int(received[at + len(_LENGTH) : stop])
    return (end + 4, status) if len(received) >= end + 4 + length else None


def payload_text(size: int) -> str:
    """A JSON object of about so many bytes, like a job's."""
    head = '{"job":"send-mail","id":"018f6b0e-0000-7000-8000-000000000000","data":{"to":"'
    return head + "x" * max(1, size - len(head) - 3) + '"}}'


@lru_cache(maxsize=2)
def push_pieces(plan: LoadPlan) -> list[list[bytes]]:
    """One push for each partition in turn, cut where the tags of its messages go."""
    payload = payload_text(plan.payload_bytes)
    pieces = []
    for turn in range(plan.partitions):
        items = [
            f'{{"queue":"{plan.queue}","partition":"p{_partition(plan, turn, place):05d}",'
            f'"transactionId":"\0-{place:02d}","payload":{payload}}}'
            for place in range(plan.batch)
        ]
        body = '{"items":[' + ",".join(items) + "]}"
        length = len(body) + plan.batch * (len(_mark(plan.tag, 0, 0)) - 1)
        head = (
            "POST /api/v1/push HTTP/1.1\r\nHost: node\r\nContent-Type: application/json\r\n"
            f"Content-Length: {length}\r\n\r\n"
        )
        pieces.append((head + body).encode().split(b"\0"))
    return pieces


def _partition(plan: LoadPlan, turn: int, place: int) -> int:
    return (turn + place) % plan.partitions if plan.spread else turn


def _mark(tag: str, number: int, count: int) -> bytes:
    return f"{tag}{number:03d}{count:09d}".encode()


class OurPush:
    """Pushes of `batch` messages."""

    def __init__(self, plan: LoadPlan, number: int) -> None:
        self._plan = plan
        self._number = number
        self._count = number * 7
        self._pieces = push_pieces(plan)

    def opening(self) -> bytes:
        """The next push."""
        self._count += 1
        mark = _mark(self._plan.tag, self._number, self._count)
        return mark.join(self._pieces[self._count % self._plan.partitions])

    def take(self, answer: bytearray) -> bytes | int | None:
        """See `Script`."""
        return None if http_answer(answer) is None else self._plan.batch


class _Popped(msgspec.Struct, rename="camel"):
    transaction_id: str
    partition_id: str
    lease_id: str


class _PopAnswer(msgspec.Struct, rename="camel"):
    messages: list[_Popped]


class _AckBatch(msgspec.Struct, rename="camel"):
    consumer_group: str
    acknowledgments: list[_Popped]


_POPPED: Final = msgspec.json.Decoder(_PopAnswer)
_ENCODE: Final = msgspec.json.Encoder().encode


class OurPop:
    """Pops of `batch` messages, each followed by the acks of all of them in one request."""

    def __init__(self, plan: LoadPlan) -> None:
        self._settled = 0
        self._empty = 0
        target = (
            f"/api/v1/pop/queue/{plan.queue}?batch={plan.batch}&consumerGroup={GROUP}"
            f"&leaseSeconds={LEASE_S}&subscriptionMode=all"
        )
        self._pop = f"GET {target} HTTP/1.1\r\nHost: node\r\n\r\n".encode()

    def opening(self) -> bytes:
        """The next pop."""
        self._settled = 0
        return self._pop

    def take(self, answer: bytearray) -> bytes | int | None:
        """See `Script`."""
        found = http_answer(answer)
        if found is None:
            return None
        start, status = found
        if status == 204:
            # Others hold leases on all that is left, or nothing is.
            self._empty += 1
            return -1 if self._empty > EMPTY_MAX else self._pop
        self._empty = 0
        if self._settled:
            if b'"success":false' in answer:
                raise LoadError(f"an ack was refused: {answer[:600].decode('latin-1')}")
            return self._settled
        messages = _POPPED.decode(memoryview(answer)[start:]).messages
        self._settled = len(messages)
        body = _ENCODE(_AckBatch(GROUP, messages))
        head = (
            "POST /api/v1/ack/batch HTTP/1.1\r\nHost: node\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(body)}\r\n\r\n"
        )
        return head.encode() + body


def redis_command(*words: str | bytes) -> bytes:
    """One command in Redis's protocol."""
    parts = [b"*%d\r\n" % len(words)]
    for word in words:
        data = word.encode() if isinstance(word, str) else word
        parts.append(b"$%d\r\n%b\r\n" % (len(data), data))
    return b"".join(parts)


def _refuse_error(answer: bytearray) -> None:
    if answer[:1] == b"-" or b"\r\n-ERR" in answer:
        raise LoadError(answer[:600].decode("latin-1"))


class RedisPush:
    """XADDs, `batch` of them in one pipeline to one stream."""

    def __init__(self, plan: LoadPlan, number: int) -> None:
        self._batch = plan.batch
        self._turn = number
        payload = payload_text(plan.payload_bytes)
        self._requests = [
            redis_command("XADD", f"{plan.queue}-{turn}", "*", "data", payload) * plan.batch
            for turn in range(plan.partitions)
        ]

    def opening(self) -> bytes:
        """The next pipeline."""
        self._turn += 1
        return self._requests[self._turn % len(self._requests)]

    def take(self, answer: bytearray) -> bytes | int | None:
        """See `Script`; each answer has two lines."""
        _refuse_error(answer)
        return self._batch if answer.count(b"\r\n") >= 2 * self._batch else None


class RedisPop:
    """XREADGROUPs of `batch` messages of one stream, each followed by one XACK of all of them."""

    def __init__(self, plan: LoadPlan, number: int) -> None:
        self._plan = plan
        self._number = number
        self._settled = 0
        self._stream = ""
        self._empty = 0

    def opening(self) -> bytes:
        """The next read."""
        self._settled = 0
        self._number += 1
        self._stream = f"{self._plan.queue}-{self._number % self._plan.partitions}"
        return redis_command(
            *("XREADGROUP", "GROUP", GROUP, GROUP, "COUNT", str(self._plan.batch)),
            *("STREAMS", self._stream, ">"),
        )

    def take(self, answer: bytearray) -> bytes | int | None:
        """See `Script`."""
        if not answer.endswith(b"\r\n"):
            return None
        _refuse_error(answer)
        if self._settled:
            return self._settled
        if answer == b"*-1\r\n":
            self._empty += 1
            is_over = self._empty > self._plan.partitions
            return -1 if is_over else self.opening()
        lines = answer.split(b"\r\n")
        if len(lines) <= _REDIS_HEAD_LINES:
            return None
        count = int(lines[4][1:])
        if len(lines) <= _REDIS_HEAD_LINES + _REDIS_MESSAGE_LINES * count:
            return None
        self._empty = 0
        self._settled = count
        ids = [bytes(line) for line in lines[7::_REDIS_MESSAGE_LINES]]
        return redis_command("XACK", self._stream, GROUP, *ids)


def make_script(plan: LoadPlan, number: int) -> Script:
    """The script of connection `number` of a plan."""
    if plan.system == "ours":
        return OurPush(plan, number) if plan.kind == "push" else OurPop(plan)
    return RedisPush(plan, number) if plan.kind == "push" else RedisPop(plan, number)
