"""Loading an application in a process of its own, only to see whether it can be loaded.

Nobody is forked from that process, so threads and connections that the application opens do not
matter; it is killed when it has answered.
"""

from __future__ import annotations

import os
import signal
import time
import traceback
from typing import Final

from ..jobs.application import Application
from .application import LoadError, load_application
from .forkwire import BootFailed, Ready, decode_reply, encode
from .linux import die_with_parent, kill_group

_READ_BYTES: Final = 1 << 16


def own_timeouts_s(app: Application) -> dict[str, float]:
    """Return the jobs that name a timeout of their own, and it."""
    found = {}
    for name in app.job_names:
        spec = app.find(name)
        if spec is not None and spec.timeout_s:
            found[name] = spec.timeout_s
    return found


def load_apart(spec: str) -> dict[str, float]:
    """See whether an application can be loaded; return what `own_timeouts_s` says of it.

    Raises:
        LoadError: It cannot.
    """
    parent = os.getpid()
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.setsid()
            die_with_parent(signal.SIGKILL)
            null = os.open(os.devnull, os.O_RDWR)
            os.dup2(null, 0)
            if os.getppid() == parent:
                os.write(write, _answer(spec))
        finally:
            os._exit(0)
    os.close(write)
    try:
        # One line, and not all there is: a process that the application started may hold the pipe.
        data = b""
        while not data.endswith(b"\n") and (more := os.read(read, _READ_BYTES)):
            data += more
    finally:
        os.close(read)
        kill_group(pid)
        os.waitpid(pid, 0)
    if not data.endswith(b"\n"):
        raise LoadError(f"loading {spec} ended the process")
    reply = decode_reply(data)
    if isinstance(reply, BootFailed):
        raise LoadError(reply.error)
    assert isinstance(reply, Ready), f"{reply} of a process that only loads"
    return reply.timeouts_s


def _answer(spec: str) -> bytes:
    began = time.monotonic()
    try:
        timeouts_s = own_timeouts_s(load_application(spec))
    except LoadError as error:
        if error.__cause__ is not None:
            traceback.print_exception(error.__cause__)
        return encode(BootFailed(str(error)))
    return encode(Ready(round(time.monotonic() - began, 3), timeouts_s))
