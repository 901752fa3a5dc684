"""A worker whose fork server is gone, and which the kernel gave to the master."""

from __future__ import annotations

import os
import signal
from typing import Final

import trio

from ..jobs.exitmark import take_mark
from ..jobs.journal import read_debts
from .forkwire import Exited
from .linux import kill_group
from .records import append_line, make_death
from .statedir import StateDirectory
from .worker_handle import Worker

_KILLED_STATUS: Final = int(signal.SIGKILL)


async def bury_adopted(worker: Worker, directory: StateDirectory) -> Exited:
    """Account for a worker whose fork server is gone; it is this process's child now."""
    worker.was_killed = True
    worker.send_signal(signal.SIGKILL)
    if worker.pidfd >= 0:
        await trio.lowlevel.wait_readable(worker.pidfd)
    try:
        os.waitid(os.P_PID, worker.pid, os.WEXITED | os.WNOWAIT)
    except ChildProcessError:
        # The fork server reaped it and died before it could say so, perhaps before it put
        # the death on record; a second record of one death is harmless, a missing one is not.
        status = _KILLED_STATUS
    else:
        kill_group(worker.pid)
        _, status = os.waitpid(worker.pid, 0)
    state_dir = directory.workers
    marker = take_mark(state_dir, worker.pid, status)
    popping = read_debts(state_dir, worker.pid).popping
    death = make_death(worker.pid, status, "worker", marker, popping)
    append_line(directory.deaths, death)
    return Exited(worker.pid, status, marker, death.t_ns)
