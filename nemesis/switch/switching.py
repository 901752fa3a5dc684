"""Forwarding frames between ports over AF_PACKET (`packet(7)`), each link by its rule."""

from __future__ import annotations

import heapq
import itertools
import random
import socket
from typing import Final

import msgspec
import trio

from .control import Answer, LinkCount, LinkRule, Order, Plan, Port
from .frames import BROADCAST, pair_of
from .treatment import Treatment

_EVERY_PROTOCOL: Final = 3
_SOL_PACKET: Final = 263
_IGNORE_OUTGOING: Final = 23
_FRAME_BYTES: Final = 65_536
_AT_ONCE: Final = 64
_BUFFER_BYTES: Final = 4 << 20
_ORDER_BYTES: Final = 1 << 18
_TARGET_END: Final = 6

Pair = tuple[int, int]


class Switch:
    """Ports and rules.

    Args:
        plan: Its ports, which must be up.

    Raises:
        OSError: A port cannot be opened.
    """

    def __init__(self, plan: Plan) -> None:
        self._stream = random.Random(plan.seed)
        self._network = bytes(plan.network)
        self._ports = {port.number: _open(port) for port in plan.ports}
        self._treatments: dict[Pair, list[Treatment]] = {}
        self._late: list[tuple[float, int, int, bytes]] = []
        self._numbers = itertools.count()
        self._sooner = trio.Event()
        self._unsent = 0

    async def run(self, control: socket.socket) -> None:
        """Forward until whoever gives the orders hangs up."""
        async with trio.open_nursery() as nursery:
            for number, port in self._ports.items():
                nursery.start_soon(self._receive, number, port)
            nursery.start_soon(self._deliver)
            await self._obey(trio.socket.from_stdlib_socket(control))
            nursery.cancel_scope.cancel()
        for port in self._ports.values():
            port.close()

    async def _obey(self, control: trio.socket.SocketType) -> None:
        decoder = msgspec.json.Decoder(Order)
        while told := await control.recv(_ORDER_BYTES):
            order = decoder.decode(told)
            counts = self._set_rules(order.rules) if order.op == "rules" else self._counts()
            await control.send(msgspec.json.encode(Answer(counts, self._unsent)))

    def _counts(self) -> list[LinkCount]:
        return [
            LinkCount(*pair, each.counts)
            for pair, some in self._treatments.items()
            for each in some
        ]

    def _set_rules(self, rules: list[LinkRule]) -> list[LinkCount]:
        before = self._treatments
        self._treatments = {}
        # Rules for some frames come first; what is left goes by the one for all.
        for told in sorted(rules, key=lambda each: not each.rule.only):
            pair = (told.source, told.target)
            same = [each for each in before.get(pair, ()) if each.rule == told.rule]
            new = same or [Treatment(told.rule, random.Random(self._stream.random()))]
            self._treatments.setdefault(pair, []).extend(new)
        return [
            LinkCount(*pair, old.counts)
            for pair, some in before.items()
            for old in some
            if old not in self._treatments.get(pair, ())
        ]

    async def _receive(self, number: int, port: socket.socket) -> None:
        while True:
            await trio.lowlevel.wait_readable(port)
            now_s = trio.current_time()
            for _ in range(_AT_ONCE):
                try:
                    frame = port.recv(_FRAME_BYTES)
                except BlockingIOError:
                    break
                except OSError:
                    # The interface went down, because its namespace is gone.
                    return
                self._forward(now_s, number, frame)

    def _forward(self, now_s: float, number: int, frame: bytes) -> None:
        target = frame[_TARGET_END - 1]
        if frame[0] == BROADCAST or target not in self._ports:
            for other in self._ports:
                if other != number:
                    self._send(other, frame)
            return
        if self._treatments:
            pair = pair_of(frame, self._network)
            some = () if pair is None else self._treatments.get(pair, ())
            for treatment in some:
                if treatment.is_for(frame):
                    for due_s, treated in treatment.treat(now_s, frame):
                        self._send_at(now_s, due_s, target, treated)
                    return
        self._send(target, frame)

    def _send_at(self, now_s: float, due_s: float, target: int, frame: bytes) -> None:
        if due_s <= now_s:
            self._send(target, frame)
            return
        is_first = not self._late or due_s < self._late[0][0]
        heapq.heappush(self._late, (due_s, next(self._numbers), target, frame))
        if is_first:
            self._sooner.set()

    def _send(self, target: int, frame: bytes) -> None:
        try:
            self._ports[target].send(frame)
        except OSError:
            # A full queue, or an end that is going: to the sender it is a lost frame.
            self._unsent += 1

    async def _deliver(self) -> None:
        """Send what is due, in order of its time."""
        while True:
            due_s = self._late[0][0] if self._late else float("inf")
            self._sooner = trio.Event()
            with trio.move_on_at(due_s):
                await self._sooner.wait()
            now_s = trio.current_time()
            while self._late and self._late[0][0] <= now_s:
                _, _, target, frame = heapq.heappop(self._late)
                self._send(target, frame)


def _open(port: Port) -> socket.socket:
    sock = socket.socket(socket.AF_PACKET, socket.SOCK_RAW | socket.SOCK_CLOEXEC, 0)
    sock.setblocking(False)
    # What the switch sends out of a port must not come in again.
    sock.setsockopt(_SOL_PACKET, _IGNORE_OUTGOING, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _BUFFER_BYTES)
    sock.bind((port.name, _EVERY_PROTOCOL))
    return sock
