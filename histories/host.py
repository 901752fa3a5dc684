"""Which host and which boot of it a record comes from."""

from __future__ import annotations

import platform
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Host:
    """One boot of one host: the span over which CLOCK_MONOTONIC orders records."""

    name: str
    boot: str


def this_host() -> Host:
    """Return the host that this process runs on.

    Raises:
        OSError: The kernel does not tell its boot id.
    """
    boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    return Host(platform.node() or "localhost", boot)
