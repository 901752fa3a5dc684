"""One process that puts load on a server: raw sockets, one epoll, requests made beforehand.

Run: python -m benchmarks.load.generator < PLAN.json > RESULT.json (see `plan`)
"""

from __future__ import annotations

import math
import select
import socket
import sys
import time
from collections import deque
from typing import Final

import msgspec
import numpy as np

from .accounting import cpus_s
from .plan import LoadPlan, LoadResult
from .scripts import LoadError, Script, make_script

READ_BYTES: Final = 1 << 20
GIVE_UP_S: Final = 60.0
_LATE_S: Final = 0.001


class Line:
    """One connection.

    Attributes:
        began: When its exchange began, or was due.
        unsent: The rest of a request that the socket did not take at once.
    """

    __slots__ = ("began", "received", "script", "sock", "unsent")

    def __init__(self, sock: socket.socket, script: Script) -> None:
        self.sock = sock
        self.script = script
        self.began = 0.0
        self.received = bytearray()
        self.unsent = memoryview(b"")


class Generator:
    """Carries out one plan."""

    def __init__(self, plan: LoadPlan) -> None:
        self._plan = plan
        self._epoll = select.epoll()
        self._lines: dict[int, Line] = {}
        self._idle: deque[Line] = deque()
        self._spans: list[float] = []
        self._counted = 0
        self._all = 0
        self._late = 0
        self._is_counting = False
        self._is_over = False
        self._next_due = math.inf
        for number in range(plan.connections):
            sock = socket.create_connection(("127.0.0.1", plan.port))
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            sock.setblocking(False)
            line = Line(sock, make_script(plan, number))
            self._lines[sock.fileno()] = line
            self._idle.append(line)
            self._epoll.register(sock, select.EPOLLIN)

    def run(self) -> LoadResult:
        """Warm up, measure, let what is on its way finish, and sum up.

        Raises:
            LoadError: The server refused something, or stopped answering.
        """
        plan = self._plan
        start = time.perf_counter()
        counts_from = start + plan.warmup_s
        ends = counts_from + plan.measure_s
        if plan.rate is not None:
            self._next_due = start
        began_server: list[float] = []
        began_own = began_at = 0.0
        self._open_idle(start)
        while True:
            now = time.perf_counter()
            if not self._is_counting and now >= counts_from:
                self._is_counting = True
                began_server, began_own = cpus_s(plan.server_pids), time.process_time()
                began_at = now
            if now >= ends or self._is_over:
                break
            until = min(ends, counts_from if not self._is_counting else ends, self._next_due)
            self._turn(until)
        if not self._is_counting:
            raise LoadError("nothing was left before the counted time began; push more in front")
        elapsed = time.perf_counter() - began_at
        own = time.process_time() - began_own
        used = [
            end - begin for end, begin in zip(cpus_s(plan.server_pids), began_server, strict=True)
        ]
        self._is_counting = False
        self._is_over = True
        result = self._result(elapsed, own, used)
        self._finish()
        return msgspec.structs.replace(result, all_messages=self._all)

    def _turn(self, until: float) -> None:
        """Wait for answers, or until an instant; then send what is due."""
        timeout = max(0.0, until - time.perf_counter())
        if self._plan.rate is not None and timeout:
            # epoll counts in milliseconds, which is too coarse for requests by the clock.
            select.select([self._epoll.fileno()], [], [], timeout)
            timeout = 0.0
        for descriptor, events in self._epoll.poll(timeout):
            line = self._lines[descriptor]
            if events & select.EPOLLOUT:
                self._send(line, line.unsent)
            if events & ~select.EPOLLOUT:
                self._read(line)
        if self._next_due < math.inf:
            self._open_idle(time.perf_counter())

    def _open_idle(self, now: float) -> None:
        rate = self._plan.rate
        idle = self._idle
        while idle and not self._is_over:
            if rate is not None:
                if self._next_due > now:
                    return
                began, self._next_due = self._next_due, self._next_due + 1 / rate
                self._late += self._is_counting and now - began > _LATE_S
            else:
                began = now
            line = idle.popleft()
            line.began = began
            self._send(line, memoryview(line.script.opening()))

    def _send(self, line: Line, data: memoryview) -> None:
        was_unsent = bool(line.unsent)
        try:
            sent = line.sock.send(data)
        except BlockingIOError:
            sent = 0
        line.unsent = data[sent:]
        if bool(line.unsent) != was_unsent:
            events = select.EPOLLIN | (select.EPOLLOUT if line.unsent else 0)
            self._epoll.modify(line.sock, events)

    def _read(self, line: Line) -> None:
        data = line.sock.recv(READ_BYTES)
        if not data:
            raise LoadError("the server closed a connection")
        line.received += data
        found = line.script.take(line.received)
        if found is None:
            return
        line.received = bytearray()
        if isinstance(found, bytes):
            self._send(line, memoryview(found))
            return
        now = time.perf_counter()
        if found < 0:
            self._is_over = True
        else:
            self._all += found
            if self._is_counting:
                self._counted += found
                self._spans.append(now - line.began)
        self._idle.append(line)
        if self._next_due == math.inf:
            self._open_idle(now)

    def _finish(self) -> None:
        deadline = time.perf_counter() + GIVE_UP_S
        while len(self._idle) < len(self._lines):
            if time.perf_counter() > deadline:
                raise LoadError(f"no answer for {GIVE_UP_S:g} s")
            self._next_due = math.inf
            self._turn(time.perf_counter() + 1.0)

    def _result(self, elapsed: float, own: float, used: list[float]) -> LoadResult:
        if not self._spans:
            raise LoadError("nothing was answered in the counted time")
        spans_ms = np.array(self._spans) * 1000
        p50, p99 = np.percentile(spans_ms, [50, 99])
        per_message = 1e6 / self._counted
        return LoadResult(
            messages=self._counted,
            all_messages=0,
            requests=len(self._spans),
            elapsed_s=round(elapsed, 3),
            per_s=round(self._counted / elapsed, 1),
            p50_ms=round(float(p50), 3),
            p99_ms=round(float(p99), 3),
            worst_ms=round(float(spans_ms.max()), 3),
            server_cpu_us=tuple(round(cpu * per_message, 2) for cpu in used),
            generator_cpu_us=round(own * per_message, 2),
            late=self._late,
        )


def main() -> int:
    """Carry out the plan on standard input; 1 when the server refused."""
    plan = msgspec.json.decode(sys.stdin.buffer.read(), type=LoadPlan)
    try:
        result = Generator(plan).run()
    except LoadError as error:
        print(f"load: {error}", file=sys.stderr)
        return 1
    sys.stdout.buffer.write(msgspec.json.encode(result))
    return 0


if __name__ == "__main__":
    sys.exit(main())
