"""Signals that can only hit the process that was meant, and what /proc says about it.

A pidfd is opened first and the start time read after: if that matches, the descriptor belongs to
the process that was meant, and no later reuse of its number changes that (`pidfd_open(2)`).
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Protocol

import trio

_POLL_S: Final = 0.001
_STATE_FIELD: Final = 0
_START_TIME_FIELD: Final = 19


class ProcessGoneError(Exception):
    """The process has ended, whatever has its number now."""


class Identified(Protocol):
    """A process by number and start time; `world.Target` is one."""

    @property
    def pid(self) -> int:
        """Its number."""

    @property
    def start_time(self) -> str:
        """When it started, in clock ticks after boot."""


def _stat(path: str) -> list[str] | None:
    """The fields of a /proc stat file from the third on; the second may hold anything."""
    try:
        text = Path(path).read_text(encoding="utf-8", errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return None
    return text.rpartition(")")[2].split()


def start_time(pid: int) -> str:
    """When the process started, in clock ticks after boot.

    Raises:
        ProcessGoneError: No process has that number.
    """
    fields = _stat(f"/proc/{pid}/stat")
    if fields is None:
        raise ProcessGoneError(f"no process {pid}")
    return fields[_START_TIME_FIELD]


def is_alive(target: Identified) -> bool:
    """Whether the process runs or is stopped; a zombie is dead."""
    fields = _stat(f"/proc/{target.pid}/stat")
    if fields is None or fields[_START_TIME_FIELD] != target.start_time:
        return False
    return fields[_STATE_FIELD] not in "ZX"


def is_stopped(target: Identified) -> bool:
    """Whether every thread of the process is stopped."""
    if not is_alive(target):
        return False
    try:
        threads = os.listdir(f"/proc/{target.pid}/task")
    except (FileNotFoundError, ProcessLookupError):
        return False
    states = [_stat(f"/proc/{target.pid}/task/{thread}/stat") for thread in threads]
    return all(fields is not None and fields[_STATE_FIELD] == "T" for fields in states)


@contextmanager
def opened(target: Identified) -> Iterator[int]:
    """A pidfd of the living process that was meant, and of no other.

    Raises:
        ProcessGoneError: It has ended.
    """
    try:
        descriptor = os.pidfd_open(target.pid)
    except ProcessLookupError:
        raise ProcessGoneError(f"no process {target.pid}") from None
    try:
        if not is_alive(target):
            raise ProcessGoneError(f"process {target.pid} is not the one that was meant")
        yield descriptor
    finally:
        os.close(descriptor)


def send(descriptor: int, number: signal.Signals) -> None:
    """Signal through a pidfd.

    Raises:
        ProcessGoneError: It has ended and was reaped.
    """
    try:
        signal.pidfd_send_signal(descriptor, number)
    except ProcessLookupError:
        raise ProcessGoneError("the process has ended") from None


def send_to(target: Identified, number: signal.Signals) -> None:
    """Signal a process once.

    Raises:
        ProcessGoneError: It has ended.
    """
    with opened(target) as descriptor:
        send(descriptor, number)


async def wait_gone(target: Identified, timeout_s: float) -> bool:
    """Wait until a process has ended (reaped or not); False if it takes longer."""
    try:
        with opened(target) as descriptor:
            with trio.move_on_after(timeout_s) as scope:
                await trio.lowlevel.wait_readable(descriptor)
            return not scope.cancelled_caught
    except ProcessGoneError:
        await trio.lowlevel.checkpoint()
        return True


async def wait_stopped(target: Identified, stopped: bool, timeout_s: float) -> bool:
    """Wait until a process is stopped, or runs; False if it ends or takes longer.

    Polls /proc every millisecond: waitid(2) would tell a parent only.
    """
    with trio.move_on_after(timeout_s):
        while is_alive(target):
            if is_stopped(target) is stopped:
                return True
            await trio.sleep(_POLL_S)
    return False
