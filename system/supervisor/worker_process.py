"""A forked worker: it sheds what it has of the fork server, then runs the worker's loop."""

from __future__ import annotations

import gc
import os
import random
import signal
import sys
import traceback
from collections.abc import Callable, Iterable
from typing import NoReturn

from ..jobs.application import Application
from ..jobs.settings import WorkerSettings
from ..jobs.worker import run_worker
from .linux import die_with_parent

_RESET = (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
_KEPT_WAITING = (signal.SIGTERM, signal.SIGUSR2)


def fork_worker(app: Application, settings: WorkerSettings, inherited_fds: Iterable[int]) -> int:
    """Fork a worker and return its pid; the child never returns.

    Signals are blocked around the fork, so that one for the child cannot be taken by a handler
    that the child has only inherited.

    Args:
        app: The loaded application.
        settings: The worker's settings.
        inherited_fds: Descriptors of the fork server that the worker must not keep.

    Raises:
        OSError: The kernel refused.
    """
    parent = os.getpid()
    sys.stdout.flush()
    sys.stderr.flush()
    before = signal.pthread_sigmask(signal.SIG_SETMASK, signal.valid_signals())
    try:
        pid = os.fork()
        if pid == 0:
            _run_child(parent, app, settings, inherited_fds)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    return pid


def _run_child(
    parent: int, app: Application, settings: WorkerSettings, inherited_fds: Iterable[int]
) -> NoReturn:
    def run() -> int:
        shed(parent, inherited_fds)
        return run_worker(app, settings)

    leave_with(run)


def leave_with(run: Callable[[], int]) -> NoReturn:
    """Run a worker and end this process with its status; nothing of the caller's runs any more."""
    code = 1
    try:
        code = run()
    except SystemExit as error:
        code = error.code if isinstance(error.code, int) else int(error.code is not None)
    except BaseException:  # The worker's last words; nothing above it could report them.
        traceback.print_exc()
    finally:
        try:
            sys.stdout.flush()
            sys.stderr.flush()
        finally:
            os._exit(code)


def shed(parent: int, inherited_fds: Iterable[int]) -> None:
    """Become a process on its own: own session, no handlers, no input; two signals wait.

    Args:
        parent: Who forked this process; it ends when that one has died already.
        inherited_fds: What it must not keep.
    """
    os.setsid()
    die_with_parent(signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)
    signal.set_wakeup_fd(-1)
    for number in _RESET:
        signal.signal(number, signal.SIG_DFL)
    null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    os.dup2(null, 0)
    for fd in (null, *inherited_fds):
        os.close(fd)
    random.seed()
    gc.enable()
    # The worker's loop lets these in when it can obey them; until then they must not kill it.
    signal.pthread_sigmask(signal.SIG_SETMASK, _KEPT_WAITING)
