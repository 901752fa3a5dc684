"""How long the processes of a run had to wait for a core, as the verifier sampled it.

A sample covers the time from one look to the next. What it tells comes from the kernel: how long a
thread ran, and how long it was ready to run and stood in line for a core. A thread that is stopped
(SIGSTOP) or asleep waits for nothing, so that a planned pause is none of this.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from .lines import read_lines

VERIFIER = "verifier"
"""The name of the process that samples, and that the clients of a run live in."""


class Wait(msgspec.Struct, frozen=True, kw_only=True):
    """How one process fared: the figures of that of its threads that waited longest.

    Attributes:
        waited: Share of the time in which it was ready to run and no core was free for it.
        ran: Share of the time in which it ran.
    """

    waited: float
    ran: float


class SchedulingSample(msgspec.Struct, frozen=True, kw_only=True):
    """One line of `scheduling.jsonl`.

    Attributes:
        from_ns: CLOCK_MONOTONIC of the look before.
        t_ns: CLOCK_MONOTONIC of this look.
        late_ns: By how much the latest of the sampler's wake-ups in this time was late.
        own: Share of the time of all usable cores that processes of the run took, 0 to 1.
        others: The same for everything else on this machine.
        stolen: The same for what the host of a virtual machine gave to others.
        waits: Processes that waited for a twentieth of the time or more, by name: `n1`,
            `supervisor`, `fork-server`, `worker 4711`, `verifier`.
        v: Format version.
    """

    from_ns: int
    t_ns: int
    late_ns: int = 0
    own: float = 0.0
    others: float = 0.0
    stolen: float = 0.0
    waits: dict[str, Wait] = {}
    v: int = 1


def read_scheduling(path: Path | str) -> list[SchedulingSample]:
    """Read `scheduling.jsonl`, in order; none where there is no file; errors as `read_lines`."""
    return read_lines(path, SchedulingSample)
