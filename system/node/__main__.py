"""`python -m atleastonce.system.node CONFIG.json`: one broker node in one process.

Exit status: 0 after a planned stop, 2 for a configuration that cannot be used, 70 when the log is
damaged, 71 when the disk failed.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1
_USAGE = "usage: python -m atleastonce.system.node CONFIG.json"


def _die_with_parent(path: str) -> None:
    """Ask for SIGKILL when the parent dies, if the configuration says so, before anything slow.

    Whatever is wrong with the file is left to those who check it.
    """
    try:
        with open(path, "rb") as file:
            config = json.load(file)
    except (OSError, ValueError):
        return
    if not isinstance(config, dict) or config.get("die_with_parent") is not True:
        return
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG) failed")
    parent = config.get("parent_pid")
    if parent is not None and parent != os.getppid():
        # The parent died before the request above, which then would never be granted.
        os._exit(1)


def main() -> int:
    """Run a node; returns its exit status."""
    if len(sys.argv) != 2:
        print(_USAGE, file=sys.stderr)  # noqa: T201
        return 2
    _die_with_parent(sys.argv[1])
    # Late, because the lines above must come first and these take their time.
    from .process import run_process

    return run_process(sys.argv[1])


if __name__ == "__main__":
    sys.exit(main())
