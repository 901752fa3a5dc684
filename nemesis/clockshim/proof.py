"""A shim tried out: a program that is started with it must see its clock moved, live."""

from __future__ import annotations

import os
import platform
import select
import subprocess
import sys
import time
from pathlib import Path
from typing import Final

from .shim import ShimClock, ShimError, is_loaded, preloading

MACHINE: Final = "x86_64"
REMEDY: Final = (
    "Linux on x86-64 with glibc, and a store on a file system without noexec, are needed"
)
_STEPS_S: Final = (3600, -86_400, 0)
_NEAR_S: Final = 0.5
_ANSWER_S: Final = 10.0
_PROGRAM: Final = (
    "import sys, time\n"
    "for _ in sys.stdin:\n"
    "    print(time.time_ns() - time.monotonic_ns(), time.monotonic_ns(), flush=True)\n"
)
"""Says at each line how far its time of day is ahead of its monotonic clock."""

ONCE: Final = (
    "import time; print(min(time.time_ns() - time.monotonic_ns() for _ in range(5)), flush=True)"
)
"""Says so once, and ends."""


def command(program: str) -> list[str]:
    """Return what starts a small program as fast as an interpreter can."""
    return [sys.executable, "-I", "-S", "-c", program]


def prove(path: Path) -> str:
    """See a program's clock follow the shim's; 30 ms and more. Returns what was seen.

    Raises:
        ShimError: It did not; the line says why. The shim is right again.
        OSError: No program can be started, or the file not written.
    """
    if platform.machine() != MACHINE:
        raise ShimError(f"{platform.machine()}: the shim is code for {MACHINE}")
    child = subprocess.Popen(
        command(_PROGRAM),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, **preloading(path, os.environ)},
    )
    try:
        with ShimClock(path) as clock:
            try:
                return _follow(child, path, clock)
            finally:
                clock.move(0)
    except BrokenPipeError:
        raise ShimError(_why(child, "the program ended")) from None
    finally:
        child.kill()
        child.communicate()


def _follow(child: subprocess.Popen[bytes], path: Path, clock: ShimClock) -> str:
    seen = []
    for step_s in _STEPS_S:
        clock.move(step_s * 1_000_000_000)
        before_ns = time.monotonic_ns()
        ahead_ns, told_ns = _ask(child)
        if not is_loaded(child.pid, path):
            raise ShimError(_why(child, "it was not loaded"))
        if not before_ns <= told_ns <= time.monotonic_ns():
            raise ShimError("the monotonic clock of a program moved too")
        error_s = (ahead_ns - time.time_ns() + time.monotonic_ns()) / 1e9
        if abs(error_s - step_s) > _NEAR_S:
            raise ShimError(f"a program saw its clock off by {error_s:.3f} s in place of {step_s}")
        seen.append(f"{round(error_s):+d} s")
    return f"a program saw its clock off by {', '.join(seen)}"


def _ask(child: subprocess.Popen[bytes]) -> tuple[int, int]:
    assert child.stdin is not None, "started with a pipe"
    assert child.stdout is not None, "started with a pipe"
    child.stdin.write(b"\n")
    child.stdin.flush()
    if not select.select([child.stdout], [], [], _ANSWER_S)[0]:
        raise ShimError(f"the program did not answer within {_ANSWER_S:g} s")
    words = child.stdout.readline().split()
    if len(words) != 2:
        raise ShimError(_why(child, "the program ended"))
    return int(words[0]), int(words[1])


def _why(child: subprocess.Popen[bytes], what: str) -> str:
    """What happened, with the first line that the program or its dynamic linker said."""
    child.kill()
    _, said = child.communicate()
    lines = said.decode("utf-8", "replace").splitlines()
    return f"{what}: {lines[0]}" if lines else what
