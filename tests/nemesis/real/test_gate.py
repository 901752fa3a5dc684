"""The gate before a disk: calls wait, fail or are cut short, and a killed process is let go."""

from __future__ import annotations

import errno
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
import trio

from atleastonce.nemesis.gate import DiskGate, GateError, GateRule, listener_from, starting
from atleastonce.nemesis.process import wait_stopped
from atleastonce.nemesis.world import Target

# Says how each round of append and sync ended, a line a round; a byte on its input asks for one.
_WRITER = """
import os, sys
file = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)
size = 0
while os.read(0, 1):
    said = b'ok'
    try:
        written = os.pwrite(file, b'x' * 100, size)
        size += written
        said = b'short' if written < 100 else said
        os.fdatasync(file)
    except OSError as error:
        said = b'%d' % error.errno
    os.write(1, said + b'\\n')
"""


class Writer:
    """A process behind a gate that writes when it is told."""

    def __init__(self, file: Path, door: socket.socket) -> None:
        command = starting([sys.executable, "-S", "-c", _WRITER, str(file)], door, writes=True)
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,
            pass_fds=[door.fileno()],
        )

    def ask(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(b".")

    async def said(self) -> str:
        assert self.process.stdout is not None
        with trio.fail_after(10):
            await trio.lowlevel.wait_readable(self.process.stdout)
        return os.read(self.process.stdout.fileno(), 100).decode().strip()

    async def round(self) -> str:
        self.ask()
        return await self.said()

    def end(self) -> None:
        self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            assert pipe is not None
            pipe.close()


Scene = Callable[[DiskGate, Writer], Awaitable[None]]


def play(folder: Path, scene: Scene, file: str = "data/1.wal") -> None:
    """Run a scene with a gated writer of a file; the gate is before `data`."""
    (folder / "data").mkdir()

    async def main() -> None:
        near, far = socket.socketpair()
        with near, far:
            writer = Writer(folder / file, far)
            listener = await listener_from(near, 10)
        gate = DiskGate(folder / "data")
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(gate.serve, listener)
                assert await writer.round() == "ok"
                await scene(gate, writer)
                writer.end()
        finally:
            if writer.process.returncode is None:
                writer.end()

    trio.run(main)


async def until(condition: Callable[[], object]) -> None:
    with trio.fail_after(10):
        while not condition():
            await trio.sleep(0.001)


def test_a_held_sync_goes_on_when_the_rule_ends(tmp_path: Path) -> None:
    async def scene(gate: DiskGate, writer: Writer) -> None:
        gate.begin(GateRule(holds=True))
        writer.ask()
        await until(lambda: gate.counts.waited)
        assert gate.end().files == {str(tmp_path / "data/1.wal")}
        assert await writer.said() == "ok"

    play(tmp_path, scene)


def test_a_process_can_be_killed_while_its_sync_is_held(tmp_path: Path) -> None:
    async def scene(gate: DiskGate, writer: Writer) -> None:
        gate.begin(GateRule(holds=True))
        writer.ask()
        await until(lambda: gate.counts.waited)
        writer.process.send_signal(signal.SIGKILL)
        await until(lambda: writer.process.poll() is not None)
        gate.end()

    play(tmp_path, scene)


def test_a_sync_that_a_stop_takes_back_is_asked_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wait_readable = trio.lowlevel.wait_readable
    stops: list[bool] = []

    async def scene(gate: DiskGate, writer: Writer) -> None:
        async def wait_and_stop(where: int | socket.socket) -> None:
            await wait_readable(where)
            if isinstance(where, int) and not stops:
                target = Target.of(writer.process.pid, "writer")
                writer.process.send_signal(signal.SIGSTOP)
                stops.append(await wait_stopped(target, True, 10))

        monkeypatch.setattr(trio.lowlevel, "wait_readable", wait_and_stop)
        writer.ask()
        await until(lambda: stops)
        assert stops == [True]
        writer.process.send_signal(signal.SIGCONT)
        assert await writer.said() == "ok"
        assert await writer.round() == "ok"

    play(tmp_path, scene)


def test_a_slow_sync_takes_as_long_as_the_rule_says(tmp_path: Path) -> None:
    async def scene(gate: DiskGate, writer: Writer) -> None:
        gate.begin(GateRule(delay_ms=150))
        began = trio.current_time()
        assert await writer.round() == "ok"
        assert trio.current_time() - began >= 0.15
        gate.end()

    play(tmp_path, scene)


@pytest.mark.parametrize(
    ("rule", "code"),
    [
        (GateRule(sync_error=errno.EIO), errno.EIO),
        (GateRule(write_error=errno.ENOSPC), errno.ENOSPC),
    ],
)
def test_calls_fail_while_the_rule_lasts_and_never_after(
    tmp_path: Path, rule: GateRule, code: int
) -> None:
    async def scene(gate: DiskGate, writer: Writer) -> None:
        gate.begin(rule)
        assert await writer.round() == str(code)
        assert gate.end().failed == 1
        assert await writer.round() == "ok"

    play(tmp_path, scene)


def test_the_write_before_the_disk_is_full_is_half_written(tmp_path: Path) -> None:
    async def scene(gate: DiskGate, writer: Writer) -> None:
        gate.begin(GateRule(write_error=errno.ENOSPC, short=True))
        assert await writer.round() == "short"
        assert (tmp_path / "data/1.wal").stat().st_size == 150
        assert await writer.round() == str(errno.ENOSPC)
        counts = gate.end()
        assert (counts.shortened, counts.failed) == (1, 1)

    play(tmp_path, scene)


def test_files_elsewhere_are_none_of_the_gates_business(tmp_path: Path) -> None:
    async def scene(gate: DiskGate, writer: Writer) -> None:
        gate.begin(GateRule(sync_error=errno.EIO, write_error=errno.EIO))
        assert await writer.round() == "ok"
        assert gate.end().hits == 0

    play(tmp_path, scene, "elsewhere.wal")


def test_floors_tell_what_a_sync_has_made_durable(tmp_path: Path) -> None:
    async def scene(gate: DiskGate, writer: Writer) -> None:
        gate.begin(GateRule(holds=True))
        writer.ask()
        await until(lambda: gate.counts.waited)
        stat = (tmp_path / "data/1.wal").stat()
        assert stat.st_size == 200
        assert gate.floors[stat.st_dev, stat.st_ino] == 100
        gate.end()
        await writer.said()
        assert gate.floors[stat.st_dev, stat.st_ino] == 200

    play(tmp_path, scene)


def test_a_process_that_ends_without_a_gate_is_said_to_have_none() -> None:
    async def main() -> None:
        near, far = socket.socketpair()
        with near:
            far.close()
            with pytest.raises(GateError, match="no gate before the disk: the process ended"):
                await listener_from(near, 5)

    trio.run(main)
