"""Clients of a run: each writes or reads, one operation at a time, and gives up after a while."""

from __future__ import annotations

from typing import Final

from .counters import Counters
from .knobs import Knobs
from .oracles import Oracles
from .scheduler import Scheduler
from .server import Server
from .streams import Stream

CLIENT_DELAY_US_MIN: Final = 100
CLIENT_DELAY_US_MAX: Final = 2_000


class Client:
    """One process. An operation without an answer has an unknown outcome, never a failed one."""

    __slots__ = ("_clients", "_floor_index", "_operation", "_payload", "_server", "_stream")

    def __init__(self, clients: Clients, stream: Stream, server: int) -> None:
        self._clients = clients
        self._stream = stream
        self._server = server
        self._operation = 0
        self._payload = b""
        self._floor_index = 0

    def pause(self) -> None:
        """Think before the next operation."""
        think_us = self._clients.knobs.think_us
        self._clients.scheduler.after(self._stream.between(0, 2 * think_us), self._begin)

    def _begin(self) -> None:
        clients = self._clients
        if clients.is_over:
            return
        knobs, stream = clients.knobs, self._stream
        self._operation = clients.new_operation(self)
        delay_us = stream.between(CLIENT_DELAY_US_MIN, CLIENT_DELAY_US_MAX)
        server = clients.servers[self._server]
        if stream.between(1, 100) <= knobs.read_percent:
            self._payload = b""
            self._floor_index = clients.oracles.acked_index
            clients.scheduler.after(delay_us, server.read, self._operation)
        else:
            payloads = tuple(
                self._operation.to_bytes(6, "big")
                + bytes([part])
                + bytes(stream.between(0, knobs.padding_max))
                for part in range(stream.between(1, knobs.payloads_max))
            )
            self._payload = payloads[-1]
            clients.counters.proposed += 1
            clients.scheduler.after(delay_us, server.propose, self._operation, payloads)
        clients.scheduler.after(knobs.client_timeout_us, self._give_up, self._operation)

    def answer(self, operation: int, ok: bool, index: int, leader: int | None) -> None:
        """An answer leaves the server; it arrives after the way back."""
        delay_us = self._stream.between(CLIENT_DELAY_US_MIN, CLIENT_DELAY_US_MAX)
        self._clients.scheduler.after(delay_us, self._end, operation, ok, index, leader)

    def _end(self, operation: int, ok: bool, index: int, leader: int | None) -> None:
        clients = self._clients
        if operation != self._operation:
            return
        self._operation = 0
        if self._payload:
            if ok:
                clients.counters.acked += 1
                clients.oracles.on_acked(index, self._payload)
            else:
                clients.counters.unknown += 1
        elif ok:
            clients.counters.reads += 1
            clients.oracles.on_read(self._floor_index, index)
        else:
            clients.counters.reads_failed += 1
        if not ok:
            self._turn_to(leader)
        self.pause()

    def _give_up(self, operation: int) -> None:
        if operation != self._operation:
            return
        self._operation = 0
        if self._payload:
            self._clients.counters.unknown += 1
        else:
            self._clients.counters.reads_failed += 1
        self._turn_to(None)
        self.pause()

    def _turn_to(self, leader: int | None) -> None:
        nodes = len(self._clients.servers)
        self._server = self._stream.between(0, nodes - 1) if leader is None else leader


class Clients:
    """All clients of a run.

    Attributes:
        is_over: Set to begin no further operation.
    """

    __slots__ = (
        "_clients",
        "_operations",
        "counters",
        "is_over",
        "knobs",
        "oracles",
        "scheduler",
        "servers",
    )

    def __init__(
        self,
        seed: int,
        knobs: Knobs,
        scheduler: Scheduler,
        oracles: Oracles,
        counters: Counters,
        servers: list[Server],
    ) -> None:
        self.knobs = knobs
        self.scheduler = scheduler
        self.oracles = oracles
        self.counters = counters
        self.servers = servers
        self.is_over = False
        self._operations: list[Client] = []
        self._clients = [
            Client(self, Stream(seed, f"client:{number}"), number % knobs.nodes)
            for number in range(knobs.clients)
        ]
        for client in self._clients:
            client.pause()

    def new_operation(self, client: Client) -> int:
        """Return the number of a new operation of a client; numbers begin at 1."""
        self._operations.append(client)
        return len(self._operations)

    def answer(self, operation: int, ok: bool, index: int, leader: int | None) -> None:
        """Hand a server's answer to the client whose operation it is."""
        self._operations[operation - 1].answer(operation, ok, index, leader)
