"""A process that a handler forked: it ends where the handler does, and settles nothing."""

from __future__ import annotations

import os
import traceback
from collections.abc import Callable
from typing import NoReturn

from .log import log_event


def run_in(pid: int, handler: Callable[[], None]) -> None:
    """Call a handler; a child that it forked never gets out of here.

    The child's exit status is 0 when its handler returned, what it gave to `sys.exit`, else 1.

    Args:
        pid: The worker, which alone may go on.
        handler: What to call.
    """
    try:
        handler()
    except BaseException as error:
        if os.getpid() != pid:
            _leave(error)
        raise
    if os.getpid() != pid:
        os._exit(0)


def _leave(error: BaseException) -> NoReturn:
    if isinstance(error, SystemExit):
        os._exit(_status(error.code))
    log_event("forked child threw", level="error", error=traceback.format_exc())
    os._exit(1)


def _status(code: object) -> int:
    if code is None:
        return 0
    return code & 0xFF if isinstance(code, int) else 1
