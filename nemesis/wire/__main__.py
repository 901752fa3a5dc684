"""The recording's process: `python -m atleastonce.nemesis.wire PLAN-FILE`."""

from __future__ import annotations

import signal
import sys
from pathlib import Path

import msgspec

from ..namespaces import die_with_parent
from .recording import Recording, WirePlan


def main() -> None:
    """Record until SIGTERM."""
    die_with_parent()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    Recording(msgspec.json.decode(Path(sys.argv[1]).read_bytes(), type=WirePlan)).run()


main()
