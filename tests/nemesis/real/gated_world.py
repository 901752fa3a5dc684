"""A dummy world whose nodes stand behind gates and write what they are told to lose or keep."""

from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path

import trio

from atleastonce.nemesis.gate import DiskGate, listener_from, starting
from atleastonce.nemesis.world import Target

from .dummy_world import DummyWorld

# Appends and syncs for ever, and ends as a node does when either fails.
_NODE = """
import os, select, sys
file = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)
size = os.lseek(file, 0, os.SEEK_END)
while True:
    try:
        size += os.pwrite(file, b'x' * 100, size)
        os.fdatasync(file)
    except OSError:
        {after}
    select.select([], [], [], 0.002)
"""
ENDS = "os._exit(71)"
GOES_ON = "pass"


class GatedWorld(DummyWorld):
    """Its nodes write to `1.wal` in their folder."""

    def __init__(self, folder: Path, after: str) -> None:
        super().__init__()
        self.folder = folder
        self._code = _NODE.format(after=after)
        self.nursery: trio.Nursery | None = None
        for node in self.nodes():
            (folder / node).mkdir()

    def disk_gate(self, node: str) -> DiskGate:
        return self.gates.setdefault(node, DiskGate(self.folder / node))

    async def begin(self, nursery: trio.Nursery) -> None:
        """Replace the plain nodes by gated ones."""
        self.nursery = nursery
        for node in self.nodes():
            self.kill(node)
            await self.wait_exit(self.node_process(node))
            await self.start_node(node)
        self.started.clear()

    async def start_node(self, node: str) -> None:
        assert self.nursery is not None
        near, far = socket.socketpair()
        with near, far:
            file = str(self.folder / node / "1.wal")
            command = [sys.executable, "-S", "-c", self._code, file]
            child = subprocess.Popen(
                starting(command, far, writes=True),
                stdout=subprocess.PIPE,
                pass_fds=[far.fileno()],
            )
            self.adopt(child)
            listener = await listener_from(near, 10)
        self.started.append(node)
        self.place(node, Target.of(child.pid, node))
        self.nursery.start_soon(self.disk_gate(node).serve, listener)
