"""How fast faults on disks, clocks, limits and processes set in, and how fast they are gone.

For each, a child does the thing that the fault hits in a tight loop and says when each time ended,
and whether it felt the fault. Onset is from issuing the fault to the last thing that ended
unharmed before the fault was healed; heal is from issuing that to the first one unharmed again.

Run: python -m benchmarks.faults [--rounds N] [NAME …]
"""

from __future__ import annotations

import argparse
import errno
import os
import resource
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import trio

from atleastonce.nemesis.gate import DiskGate, GateRule, listener_from, starting
from atleastonce.nemesis.limits import set_soft
from atleastonce.system.node.timeofday import write_offset

_LASTS_S: Final = 0.08
_BETWEEN_S: Final = 0.08
_SETTLE_S: Final = 1.0
_SLOW_MS: Final = 20.0
_LOOKS: Final = 20

# Does one thing for ever; each line is when it ended (monotonic ns) and 1 if it felt the fault.
_VICTIM: Final = """
import mmap, os, sys, time
thing, path, said = sys.argv[1], sys.argv[2], os.open(sys.argv[3], os.O_WRONLY)
file = os.open(path, os.O_RDWR | os.O_CREAT)
if thing == 'clock':
    from atleastonce.system.node.timeofday import WrongTimeOfDay, wall_us
    from pathlib import Path
    time_of_day_us = WrongTimeOfDay(Path(path))
def sync():
    os.pwrite(file, b'x' * 200, 0)
    begun = time.monotonic()
    os.fdatasync(file)
    return time.monotonic() - begun >= {slow_s}
def write():
    return os.pwrite(file, b'x' * 200, 0) < 200
def open_one():
    os.close(os.open(path, os.O_RDONLY))
def allocate():
    mmap.mmap(-1, 40 << 20).close()
def clock():
    return abs(time_of_day_us() - wall_us()) > 1000
def spin():
    pass
do = {{'sync': sync, 'write': write, 'files': open_one, 'memory': allocate, 'clock': clock,
       'spin': spin}}[thing]
while True:
    try:
        felt = do()
    except (OSError, MemoryError):
        felt = True
    os.write(said, b'%d %d\\n' % (time.monotonic_ns(), bool(felt)))
    time.sleep(0.0002)
"""


@dataclass(frozen=True, slots=True)
class Scene:
    """A victim, and how to hit it and let it go.

    Attributes:
        thing: What the victim does.
        strike: Given the victim's pid, the gate before its disk and its file.
        heal: Likewise.
    """

    thing: str
    strike: Callable[[int, DiskGate, Path], object]
    heal: Callable[[int, DiskGate, Path], object]


def _gated(thing: str, rule: GateRule) -> Scene:
    return Scene(thing, lambda _, gate, __: gate.begin(rule), lambda _, gate, __: gate.end())


def _limited(thing: str, which: int, low: Callable[[int], int]) -> Scene:
    _, hard = resource.getrlimit(which)
    soft = resource.getrlimit(which)[0] if hard == resource.RLIM_INFINITY else hard
    return Scene(
        thing,
        lambda pid, _, __: set_soft(pid, which, low(pid)),
        lambda pid, _, __: set_soft(pid, which, soft),
    )


def _address_space(pid: int) -> int:
    """What a process has, at the least of some moments: in others the victim has more."""
    pages = min(int(Path(f"/proc/{pid}/statm").read_text().split()[0]) for _ in range(_LOOKS))
    return pages * resource.getpagesize()


def _stop(pid: int, _gate: DiskGate, _file: Path) -> None:
    os.kill(pid, signal.SIGSTOP)


def _go_on(pid: int, _gate: DiskGate, _file: Path) -> None:
    os.kill(pid, signal.SIGCONT)


SCENES: Final = {
    "slow-sync": _gated("sync", GateRule(delay_ms=_SLOW_MS)),
    "stalled-sync": _gated("sync", GateRule(holds=True)),
    "failing-sync": _gated("sync", GateRule(sync_error=errno.EIO)),
    "failing-write": _gated("write", GateRule(write_error=errno.EIO)),
    "full-disk": _gated("write", GateRule(write_error=errno.ENOSPC, short=True)),
    "bump-clock": Scene(
        "clock",
        lambda _, __, file: write_offset(file, 60_000_000),
        lambda _, __, file: write_offset(file, 0),
    ),
    "limit-memory": _limited("memory", resource.RLIMIT_AS, _address_space),
    "limit-files": _limited("files", resource.RLIMIT_NOFILE, lambda _: 3),
    "starve-cpu": Scene("spin", _stop, _go_on),
}


@dataclass(frozen=True, slots=True)
class Window:
    """When a fault was issued and when its end was, monotonic ns; and how long either call took."""

    from_ns: int
    until_ns: int
    strike_ns: int
    heal_ns: int


async def _play(scene: Scene, folder: Path, rounds: int) -> tuple[list[Window], list[str]]:
    """Strike so often; returns the windows, and what the victim said."""
    file, said = folder / "victim", folder / "said"
    write_offset(file, 0)
    said.touch()
    code = _VICTIM.format(slow_s=_SLOW_MS / 1000)
    near, far = socket.socketpair()
    with near, far:
        command = [sys.executable, "-P", "-c", code, scene.thing, str(file), str(said)]
        child = subprocess.Popen(
            starting(command, far, writes=scene.thing == "write"), pass_fds=[far.fileno()]
        )
        listener = await listener_from(near, 10)
    gate = DiskGate(folder)
    windows = []
    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(gate.serve, listener)
            while not said.stat().st_size:
                await trio.sleep(0.01)
            for _ in range(rounds):
                await trio.sleep(_BETWEEN_S)
                windows.append(await _window(scene, child.pid, gate, file))
            await trio.sleep(_SETTLE_S)
            child.kill()
            child.wait()
    finally:
        child.kill()
        child.wait()
    return windows, said.read_text().splitlines()


async def _window(scene: Scene, pid: int, gate: DiskGate, file: Path) -> Window:
    from_ns = time.monotonic_ns()
    scene.strike(pid, gate, file)
    struck_ns = time.monotonic_ns()
    await trio.sleep(_LASTS_S)
    until_ns = time.monotonic_ns()
    scene.heal(pid, gate, file)
    return Window(from_ns, until_ns, struck_ns - from_ns, time.monotonic_ns() - until_ns)


def latencies_ms(windows: list[Window], said: list[str]) -> tuple[list[float], list[float], int]:
    """Onsets and heals in ms, and how many faults nobody felt."""
    unharmed, harmed = [], []
    for line in said:
        at, felt = line.split()
        (harmed if felt == "1" else unharmed).append(int(at))
    onsets, heals, unfelt = [], [], 0
    for window in windows:
        within = [at for at in unharmed if window.from_ns <= at < window.until_ns]
        after = [at for at in unharmed if at >= window.until_ns]
        onsets.append((max(within, default=window.from_ns) - window.from_ns) / 1e6)
        heals.append((after[0] - window.until_ns) / 1e6 if after else float("inf"))
        # A thing that was held, or a stopped victim, says nothing meanwhile.
        silent = not any(window.from_ns + 40_000_000 <= at < window.until_ns for at in unharmed)
        felt_it = any(window.from_ns <= at < window.until_ns for at in harmed)
        unfelt += not (felt_it or silent)
    return onsets, heals, unfelt


def main() -> int:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", choices=[*SCENES, []], help="all if none is named")
    parser.add_argument("--rounds", type=int, default=50)
    chosen = parser.parse_args()
    print(f"{'fault':<15}{'onset ms':>16}{'heal ms':>18}{'issuing ms':>12}  not felt")
    print(f"{'':<15}{'median':>8}{'worst':>8}{'median':>10}{'worst':>8}{'median':>12}")
    for name in chosen.names or SCENES:
        with tempfile.TemporaryDirectory() as folder:
            windows, said = trio.run(_play, SCENES[name], Path(folder), chosen.rounds)
        onsets, heals, unfelt = latencies_ms(windows, said)
        issuing_ms = statistics.median(window.strike_ns for window in windows) / 1e6
        print(
            f"{name:<15}{statistics.median(onsets):>8.2f}{max(onsets):>8.2f}"
            f"{statistics.median(heals):>10.2f}{max(heals):>8.2f}{issuing_ms:>12.3f}  {unfelt}"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
