"""Samples, while a run goes on, how much memory its processes hold."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from ..histories.memory import Held, MemorySample
from .sampler import Sampling

Processes = Callable[[], Mapping[int, str]]

_PRIVATE: Final = ("Private_Clean", "Private_Dirty")
_WAKE_S: Final = 0.1


def read_held(pid: int, root: Path = Path("/proc")) -> Held | None:
    """Return what a process holds; None if it is gone, or the kernel does not tell.

    Args:
        pid: The process.
        root: Where /proc is.
    """
    try:
        text = (root / str(pid) / "smaps_rollup").read_text(encoding="ascii")
    except OSError:
        return None
    kib: dict[str, int] = {}
    for line in text.splitlines()[1:]:
        name, _, rest = line.partition(":")
        kib[name] = int(rest.split()[0])
    if "Rss" not in kib:
        return None  # A process that has ended and was not reaped has no memory left.
    private = sum(kib.get(name, 0) for name in _PRIVATE)
    return Held(pid=pid, rss=kib["Rss"], pss=kib["Pss"], private=private)


class MemorySampler:
    """Takes one sample when it is made, and one each time a pause has passed.

    Args:
        clock_ns: CLOCK_MONOTONIC.
        wall_ns: UTC.
        read: What a process holds.
        processes: The run's processes by pid, with their names.
        write: Takes each sample.
        pause_ns: From one sample to the next.
    """

    def __init__(
        self,
        clock_ns: Callable[[], int],
        wall_ns: Callable[[], int],
        read: Callable[[int], Held | None],
        processes: Processes,
        write: Callable[[MemorySample], None],
        pause_ns: int,
    ) -> None:
        self._clock_ns = clock_ns
        self._wall_ns = wall_ns
        self._read = read
        self._processes = processes
        self._write = write
        self._pause_ns = pause_ns
        self._due_ns = clock_ns()
        self.wake()

    def wake(self) -> None:
        """Sample if it is time; a moment that was slept through is not made up for."""
        now_ns = self._clock_ns()
        if now_ns < self._due_ns:
            return
        missed = (now_ns - self._due_ns) // self._pause_ns
        self._due_ns += (missed + 1) * self._pause_ns
        held = {name: self._read(pid) for pid, name in self._processes().items()}
        self._write(
            MemorySample(
                t_ns=now_ns,
                wall_ns=self._wall_ns(),
                held={name: found for name, found in held.items() if found is not None},
            )
        )


@contextmanager
def memory_sampling(
    processes: Processes, write: Callable[[MemorySample], None], pause_s: float
) -> Iterator[Sampling]:
    """Sample in a thread of its own: a large process takes milliseconds to look at.

    It never stands in the run's way: an error ends the sampling and is told at the end.
    """
    told, done = Sampling(), threading.Event()

    def run() -> None:
        try:
            sampler = MemorySampler(
                time.monotonic_ns, time.time_ns, read_held, processes, write, round(pause_s * 1e9)
            )
            while not done.wait(min(_WAKE_S, pause_s)):
                sampler.wake()
        except OSError as error:
            told.error = f"memory was not sampled to the end: {error}"

    thread = threading.Thread(target=run, name="memory", daemon=True)
    thread.start()
    try:
        yield told
    finally:
        done.set()
        thread.join()
