"""Gates before the nodes' disks, in runs whose plan has a use for them."""

from __future__ import annotations

import math
import socket
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

import trio

from ..nemesis.fault import Fault
from ..nemesis.gate import DiskGate, GateError, listener_from, starting
from ..nemesis.registry import NEMESES
from .errors import HarnessError

POWER: Final = "sync-gate"
WRITE_FAULTS: Final = ("failing-write", "full-disk")
_START_S: Final = 20.0

Wrap = Callable[[Sequence[str]], list[str]]
Spawn = Callable[[Wrap, Sequence[int]], subprocess.Popen[bytes]]


class Gates:
    """The gates of a run, one a node, each over all processes that the node ever runs in.

    Args:
        folders: The nodes' data.
        plan: The faults; without one that needs a gate, no node gets one.

    Attributes:
        within: By node, a command that starts the node's own.
    """

    def __init__(self, folders: Mapping[str, Path], plan: Sequence[Fault]) -> None:
        kinds = {fault.kind for fault in plan}
        self._is_used = any(POWER in NEMESES[kind].needs for kind in kinds)
        self._writes = not kinds.isdisjoint(WRITE_FAULTS)
        self._gates = {node: DiskGate(folder) for node, folder in folders.items()}
        self.within: dict[str, tuple[str, ...]] = {}
        self._opened, self._waiting = trio.open_memory_channel[tuple[DiskGate, int]](math.inf)

    def gate(self, node: str) -> DiskGate:
        """The gate of a node; it is never asked in a run without use for it."""
        assert self._is_used, f"no fault of this run's plan has a use for a gate before {node}"
        return self._gates[node]

    def forget(self, node: str) -> None:
        """Forget what was durable on a node whose data was deleted."""
        self._gates[node].floors.clear()

    async def start(self, node: str, spawn: Spawn) -> subprocess.Popen[bytes]:
        """Start a node behind its gate; `spawn` starts the command that it is given, as wrapped.

        Raises:
            HarnessError: The process cannot be gated.
            OSError: It cannot be started.
        """
        within = self.within.get(node, ())
        if not self._is_used:
            return spawn(lambda command: [*within, *command], ())
        near, far = socket.socketpair()
        with near, far:
            process = spawn(
                lambda command: starting([*within, *command], far, writes=self._writes),
                (far.fileno(),),
            )
            far.close()
            try:
                listener = await listener_from(near, _START_S)
            except GateError as error:
                raise HarnessError(f"{node}: {error}") from None
        self._opened.send_nowait((self._gates[node], listener))
        return process

    async def run(self) -> None:
        """Serve all gates until cancelled, which must not be before the nodes have ended."""
        async with trio.open_nursery() as nursery:
            async for gate, listener in self._waiting:
                nursery.start_soon(gate.serve, listener)
