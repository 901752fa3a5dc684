"""A node that kills itself at the Nth disk operation on checkpoints behind the last chunk received.

Started as a script: `dying_node.py N CONFIG.json`.
"""

from __future__ import annotations

import os
import signal
import sys
from typing import Any

from atleastonce.system.node.process import run_process
from atleastonce.system.node.snapshot_receiver import SnapshotReceiver
from atleastonce.system.storage.disk import RealDisk

_WATCHED = ("create", "append", "fsync", "fsync_dir", "rename", "unlink")


def _watch(name: str, state: dict[str, int]) -> None:
    original = getattr(RealDisk, name)

    def operation(disk: RealDisk, path: str, *arguments: Any) -> Any:
        if state["is_activating"] and path.startswith("checkpoint"):
            state["left"] -= 1
            if state["left"] == 0:
                os.kill(os.getpid(), signal.SIGKILL)
        return original(disk, path, *arguments)

    setattr(RealDisk, name, operation)


def main() -> int:
    """Run the node."""
    state = {"left": int(sys.argv[1]), "is_activating": 0}
    for name in _WATCHED:
        _watch(name, state)
    activate = SnapshotReceiver._activate

    async def watched(receiver: SnapshotReceiver, staged: Any) -> None:
        state["is_activating"] = 1
        await activate(receiver, staged)
        state["is_activating"] = 0

    setattr(SnapshotReceiver, activate.__name__, watched)
    return run_process(sys.argv[2])


if __name__ == "__main__":
    sys.exit(main())
