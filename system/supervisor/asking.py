"""Looking at a supervisor from outside, and asking something of it."""

from __future__ import annotations

import contextlib
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Final

import msgspec

from .checks import Sight
from .control_files import control_path, write_control
from .core.control import Action, Control
from .records import Answered, Status
from .statedir import StateDirectory, check_private, lock_holder

_POLL_S: Final = 0.05
_STATUS = msgspec.json.Decoder(Status)


class NoAnswerError(Exception):
    """A request that no supervisor took; the message says why."""


def look(root: Path) -> Sight:
    """Look at the supervisor of a state directory, and change nothing.

    Raises:
        StateDirectoryError: The directory is not there, or not this user's alone.
    """
    check_private(root)
    holder = lock_holder(root)
    try:
        status = _STATUS.decode(StateDirectory(root).status.read_bytes())
    except (OSError, msgspec.DecodeError):
        status = None
    return Sight(status, holder, time.monotonic_ns())


def ask(root: Path, action: Action, ttl_s: int | None, timeout_s: float) -> Answered:
    """Put a request to a running supervisor and wait until it is taken.

    Args:
        root: The state directory.
        action: What to ask.
        ttl_s: How long the request holds; None takes what the supervisor is set to.
        timeout_s: How long to wait; a request not taken by then is withdrawn.

    Raises:
        StateDirectoryError: The directory is not there, or not this user's alone.
        NoAnswerError: No supervisor runs there, or it takes no requests.
        OSError: The request cannot be written.
    """
    deadline = time.monotonic() + timeout_s
    sight = look(root)
    while sight.status is None or sight.holder not in (0, sight.status.master):
        if sight.holder is None:
            raise NoAnswerError(f"{root}: no supervisor runs here")
        if time.monotonic() >= deadline:
            raise NoAnswerError(f"{root}: the supervisor wrote no status in {timeout_s:g} s")
        time.sleep(_POLL_S)
        sight = look(root)
    nonce = uuid.uuid4().hex
    check_private(StateDirectory(root).controls)
    now_us = time.monotonic_ns() // 1000
    holds_s = int(sight.status.control_ttl_s) if ttl_s is None else ttl_s
    write_control(root, Control(action, sight.status.instance, nonce, now_us, holds_s))
    while True:
        sight = look(root)
        for answer in sight.status.controls if sight.status else ():
            if answer.nonce == nonce:
                return answer
        is_gone = sight.holder is None
        if is_gone or time.monotonic() >= deadline:
            with contextlib.suppress(FileNotFoundError):
                control_path(root, nonce).unlink()
            why = "it ended" if is_gone else f"not taken within {timeout_s:g} s, and withdrawn"
            raise NoAnswerError(f"{root}: {action.value}: {why}")
        time.sleep(_POLL_S)


def wait_until(root: Path, is_done: Callable[[Sight], bool], timeout_s: float) -> bool:
    """Look again and again until something holds; False when it does not in time.

    Raises:
        StateDirectoryError: The directory is not there, or not this user's alone.
    """
    deadline = time.monotonic() + timeout_s
    while not is_done(look(root)):
        if time.monotonic() >= deadline:
            return False
        time.sleep(_POLL_S)
    return True


def is_done(action: Action, sight: Sight) -> bool:
    """Whether what a request asked for has happened."""
    status = sight.status
    if action is Action.TERMINATE:
        return sight.holder is None
    if status is None:
        return False
    if action is Action.PAUSE:
        return status.state == "paused"
    if action is Action.CONTINUE:
        return status.state == "running"
    return not status.is_restarting
