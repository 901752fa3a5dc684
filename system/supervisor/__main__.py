"""`python -m atleastonce.system.supervisor CONFIG.json`.

Exit status: 0 after a graceful stop, 1 when the application cannot be loaded or a fault ended the
master, 2 when the configuration or the state directory is refused.
"""

from __future__ import annotations

import json
import os
import signal
import sys

from .linux import die_with_parent


def _follow_parent(path: str) -> bool:
    """Ask for SIGKILL when the parent dies, unless the configuration says otherwise.

    Whatever is wrong with the file is left to those who check it.

    Returns:
        False when the parent has died already.
    """
    parent = os.getppid()
    try:
        with open(path, "rb") as file:
            config = json.load(file)
    except (OSError, ValueError):
        return True
    if not isinstance(config, dict) or config.get("die_with_parent") is False:
        return True
    die_with_parent(signal.SIGKILL)
    return os.getppid() == (config.get("parent_pid") or parent)


def main() -> int:
    """Run a supervisor; return its exit status."""
    if len(sys.argv) != 2:
        sys.stderr.write("usage: python -m atleastonce.system.supervisor CONFIG.json\n")
        return 2
    if not _follow_parent(sys.argv[1]):
        sys.stderr.write("supervisor: the process that started this one is gone\n")
        return 1
    # Late, because the lines above must come first and these take their time.
    from .process import run_process

    return run_process(sys.argv[1])


if __name__ == "__main__":
    sys.exit(main())
