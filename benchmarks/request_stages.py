"""CPU time of each stage of a request inside one process: no sockets, no disk, no scheduler.

What the stages sum up to is what no arrangement of sockets and threads can save.

Run: python -m benchmarks.request_stages [EXCHANGES]
"""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Callable
from typing import Final, TypeVar

import msgspec

from atleastonce.system.broker.machine import Machine
from atleastonce.system.broker.planner import Planner
from atleastonce.system.http.framing import HttpLimits, Request, RequestParser, encode_response
from atleastonce.system.http.routes import PopRequest, Write, render, route
from atleastonce.system.raft.messages import (
    AppendEntries,
    Entry,
    EntryKind,
    decode_message,
    encode_message,
)
from atleastonce.system.storage.format import Encoder

from .load.plan import LoadPlan
from .load.scripts import make_script

EXCHANGES: Final = {1: 20_000, 100: 600}
PLAN: Final = LoadPlan(
    system="ours",
    port=0,
    kind="push",
    batch=1,
    connections=1,
    warmup_s=0,
    measure_s=0,
    rate=None,
    payload_bytes=200,
    partitions=64,
    queue="stages",
    server_pids=(),
    tag="stage-",
)

T = TypeVar("T")


class Line:
    """One leader's path of a request; counts the CPU time of each stage."""

    def __init__(self) -> None:
        self.spent_ns: Counter[str] = Counter()
        self._machine = Machine()
        self._planner = Planner(lambda count: bytes(range(count)))
        self._parser = RequestParser(HttpLimits())
        self._encoder = Encoder(1, 1, 1)
        self._clock_us = 1_800_000_000_000_000
        self._index = 0

    def serve(self, what: str, data: bytes) -> bytes:
        """Carry one request from its bytes to those of its answer."""
        parsed = self._timed(what, "HTTP parsed", lambda: self._parse(data))
        self._clock_us += 100
        self._index += 1
        name = f"request-{self._index}"
        request = self._timed(
            what,
            "command made",
            lambda: route(parsed.method, parsed.target, parsed.headers, parsed.body, name),
        )
        assert isinstance(request, Write | PopRequest), request
        command = request.command
        if isinstance(request, PopRequest):
            pop = request.command
            self._timed(
                what, "asked whether to pop", lambda: self._machine.can_pop(pop, self._clock_us)
            )
        entry_data = self._timed(
            what, "entry encoded", lambda: self._planner.plan(self._clock_us, [command])
        )
        entry = Entry(1, self._index, EntryKind.COMMAND, entry_data)
        self._timed(what, "log record made", lambda: self._log(entry))
        (reply,) = self._timed(
            what, "applied", lambda: self._machine.apply(self._index, entry_data)
        )
        answer = self._timed(what, "answer rendered", lambda: render(request, reply))
        laid_out = self._timed(
            what,
            "answer laid out",
            lambda: encode_response(
                answer.status, answer.body, answer.content_type, answer.headers, close=False
            ),
        )
        message = AppendEntries(1, self._index - 1, 1, self._index - 1, 1, (entry,))
        framed = self._timed(what, "(append encoded)", lambda: encode_message(message))
        self._timed(what, "(append decoded)", lambda: decode_message(framed))
        return laid_out

    def _parse(self, data: bytes) -> Request:
        self._parser.feed(data)
        request = self._parser.next_request()
        assert request is not None, "a request in pieces"
        return request

    def _log(self, entry: Entry) -> None:
        self._encoder.entry(entry, 0)
        self._encoder.take()

    def _timed(self, what: str, stage: str, act: Callable[[], T]) -> T:
        began = time.process_time_ns()
        result = act()
        self.spent_ns[f"{what}: {stage}"] += time.process_time_ns() - began
        return result


def measure(batch: int, exchanges: int) -> Counter[str]:
    """CPU nanoseconds of each stage over so many pushes, and as many pops with their acks."""
    line = Line()
    plan = msgspec.structs.replace(PLAN, batch=batch)
    pushes = make_script(plan, 0)
    for _ in range(exchanges):
        line.serve("push", pushes.opening())
    pops = make_script(msgspec.structs.replace(plan, kind="pop"), 0)
    for _ in range(exchanges):
        ack = pops.take(bytearray(line.serve("pop", pops.opening())))
        assert isinstance(ack, bytes), ack
        settled = pops.take(bytearray(line.serve("ack", ack)))
        assert settled == batch, f"{settled!r} of {batch} messages settled"
    return line.spent_ns


def main() -> None:
    """Measure and print."""
    for batch, count in EXCHANGES.items():
        exchanges = int(sys.argv[1]) if len(sys.argv) > 1 else count
        spent_ns = measure(batch, exchanges)
        print(f"messages in a request: {batch}; CPU us for each message")
        for what in ("push", "pop", "ack"):
            own = {name: ns for name, ns in spent_ns.items() if name.startswith(f"{what}:")}
            for name, ns in own.items():
                print(f"  {name:30} {ns / 1000 / exchanges / batch:7.2f}")
            whole = sum(ns for name, ns in own.items() if "(" not in name)
            print(f"  {what}: all but ()            {whole / 1000 / exchanges / batch:7.2f}")


if __name__ == "__main__":
    main()
