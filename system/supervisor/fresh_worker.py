"""A worker that is an interpreter of its own and loads the application itself.

The fork server starts it by fork and exec, so it is kept, killed, reaped and recorded like a
forked one. Run as `python -m atleastonce.system.supervisor.fresh_worker RECIPE_FD`.
"""

from __future__ import annotations

import os
import signal
import sys
import traceback
from collections.abc import Callable
from typing import Final, NoReturn

import msgspec

from ..jobs.settings import WorkerSettings
from .application import LoadError, load_application
from .worker_process import leave_with, shed

_MODULE: Final = "atleastonce.system.supervisor.fresh_worker"


class Recipe(msgspec.Struct, frozen=True):
    """What a fresh worker is told.

    Attributes:
        app: `module:attribute`.
        worker: Its settings.
        boot_timeout_s: Longest time for the application to load; then the kernel ends it (SIGALRM).
        generation_fd: The lock that all workers hold.
    """

    app: str
    worker: WorkerSettings
    boot_timeout_s: float
    generation_fd: int


def start_fresh_worker(recipe: Recipe) -> int:
    """Start a worker in an interpreter of its own; return its pid.

    Raises:
        OSError: The kernel refused.
    """
    parent = os.getpid()
    fd = os.memfd_create("worker")
    before = signal.pthread_sigmask(signal.SIG_SETMASK, signal.valid_signals())
    try:
        os.write(fd, msgspec.json.encode(recipe))
        os.lseek(fd, 0, os.SEEK_SET)
        pid = os.fork()
        if pid == 0:
            _become(parent, fd, recipe.generation_fd)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        os.close(fd)
    return pid


def _become(parent: int, fd: int, generation_fd: int) -> NoReturn:
    try:
        shed(parent, ())
        for kept in (fd, generation_fd):
            os.set_inheritable(kept, True)
        # Whether the working directory may hold modules is the caller's choice, here as there.
        flags = ["-P"] if sys.flags.safe_path else []
        os.execv(sys.executable, [sys.executable, *flags, "-m", _MODULE, str(fd)])
    except BaseException:  # The worker's last words; nothing above it could report them.
        traceback.print_exc()
    finally:
        os._exit(1)


def main(fd: int) -> NoReturn:
    """Run a worker; it ends with the status of its loop, 1 when the application does not load."""
    with os.fdopen(fd, "rb") as file:
        recipe = msgspec.json.decode(file.read(), type=Recipe)
    os.set_inheritable(recipe.generation_fd, False)
    leave_with(_loaded(recipe))


def _loaded(recipe: Recipe) -> Callable[[], int]:
    def run() -> int:
        # Late, and inside: whatever an import raises is said, and ends the process at once.
        from ..jobs.worker import run_worker

        signal.setitimer(signal.ITIMER_REAL, recipe.boot_timeout_s)
        try:
            app = load_application(recipe.app)
        except LoadError as error:
            if error.__cause__ is not None:
                traceback.print_exception(error.__cause__)
            sys.stderr.write(f"worker: {error}\n")
            return 1
        signal.setitimer(signal.ITIMER_REAL, 0)
        return run_worker(app, recipe.worker)

    return run


if __name__ == "__main__":
    main(int(sys.argv[1]))
