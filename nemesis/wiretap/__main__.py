"""The wiretap's process: `python -m atleastonce.nemesis.wiretap PLAN.json`."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import msgspec

from ..namespaces import die_with_parent
from .plan import TapPlan


def main() -> None:
    """Record until told to stop."""
    plan = msgspec.json.decode(Path(sys.argv[1]).read_bytes(), type=TapPlan)
    die_with_parent()
    if os.getppid() != plan.parent_pid:
        # The parent died before the request above, which then would never be granted.
        os._exit(1)
    # Ctrl-C is for the verifier, which ends the wiretap when the nodes have stopped.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # Late, because the lines above must come first and these take their time.
    from .tapping import record

    record(plan)


main()
