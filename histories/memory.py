"""How much memory the processes of a run held, as the verifier sampled it."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import msgspec

from .lines import read_lines

MASTER: Final = "supervisor"
FORK_SERVER: Final = "fork-server"
WORKER: Final = "worker"
"""First word of a worker's name; its pid is the second."""


class Held(msgspec.Struct, frozen=True, kw_only=True):
    """What one process held, KiB.

    Attributes:
        pid: The process.
        rss: Resident: what it could touch without a page fault, shared or not.
        pss: The same with each page divided by the number of processes that share it.
        private: Pages that it shares with nobody.
    """

    pid: int
    rss: int
    pss: int
    private: int


class MemorySample(msgspec.Struct, frozen=True, kw_only=True):
    """One line of `memory.jsonl`.

    Attributes:
        t_ns: CLOCK_MONOTONIC of the look.
        wall_ns: UTC, for people.
        held: Living processes by name: `n1`, `supervisor`, `fork-server`, `worker 4711`,
            `verifier`.
        v: Format version.
    """

    t_ns: int
    wall_ns: int
    held: dict[str, Held] = {}
    v: int = 1


def read_memory(path: Path | str) -> list[MemorySample]:
    """Read `memory.jsonl`, in order; none where there is no file; errors as `read_lines`."""
    return read_lines(path, MemorySample)
