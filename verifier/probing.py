"""Trying something out in a process of its own, which may hang, crash or lose its privileges."""

from __future__ import annotations

import os
import select
import signal
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

import msgspec

from ..nemesis.levels import Finding
from ..nemesis.namespaces import die_with_parent

LIMIT_S: Final = 10.0
_ANSWER_BYTES: Final = 65_536


class RefusedError(Exception):
    """The machine cannot do it.

    Attributes:
        remedy: What to do, where it is not the probe's usual remedy.
    """

    def __init__(self, found: str, remedy: str = "") -> None:
        super().__init__(found)
        self.remedy = remedy


@dataclass(frozen=True, slots=True)
class LevelProbe:
    """One thing to try.

    Attributes:
        name: As `nemesis.levels` knows it.
        attempt: Does it for real and says what it saw; raises `RefusedError` or `OSError`.
        gives: What runs have if it passes.
        lacks: What they lack if not.
        remedy: What to do then.
    """

    name: str
    attempt: Callable[[], str]
    gives: str
    lacks: str
    remedy: str

    def failed(self, found: str, remedy: str = "") -> Finding:
        """Say that it did not pass."""
        return Finding(self.name, False, found, self.lacks, remedy or self.remedy)


@dataclass(slots=True)
class _Running:
    probe: LevelProbe
    pid: int
    answer: int


class _Answer(msgspec.Struct):
    passed: bool
    found: str
    remedy: str = ""


def try_all(probes: Sequence[LevelProbe], limit_s: float = LIMIT_S) -> list[Finding]:
    """Try everything, each in a child, all at once; nothing of them is left afterwards.

    Args:
        probes: What to try.
        limit_s: One that takes longer has failed, and is killed.
    """
    deadline_s = time.monotonic() + limit_s
    running = [_begin(probe) for probe in probes]
    return [_collect(each, deadline_s, limit_s) for each in running]


def _begin(probe: LevelProbe) -> _Running:
    reading, writing = os.pipe2(os.O_CLOEXEC)
    pid = os.fork()
    if pid:
        os.close(writing)
        return _Running(probe, pid, reading)
    status = 1
    try:
        os.close(reading)
        os.setsid()
        die_with_parent()
        os.write(writing, msgspec.json.encode(_answer(probe)))
        status = 0
    finally:
        # Nothing of the parent's may run in here: no handlers at exit, no buffers flushed twice.
        os._exit(status)


def _answer(probe: LevelProbe) -> _Answer:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
    try:
        return _Answer(True, probe.attempt())
    except RefusedError as refused:
        return _Answer(False, str(refused), refused.remedy)
    except OSError as error:
        return _Answer(False, str(error))


def _collect(running: _Running, deadline_s: float, limit_s: float) -> Finding:
    probe, data = running.probe, b""
    try:
        left_s = max(0.0, deadline_s - time.monotonic())
        if not select.select([running.answer], [], [], left_s)[0]:
            return probe.failed(f"no answer within {limit_s:g} s")
        data = os.read(running.answer, _ANSWER_BYTES)
    finally:
        os.close(running.answer)
        with suppress(ProcessLookupError):
            os.killpg(running.pid, signal.SIGKILL)
        with suppress(ProcessLookupError):
            os.kill(running.pid, signal.SIGKILL)
        os.waitpid(running.pid, 0)
    if not data:
        return probe.failed("the probe crashed")
    answer = msgspec.json.decode(data, type=_Answer)
    if not answer.passed:
        return probe.failed(answer.found, answer.remedy)
    return Finding(probe.name, True, answer.found, probe.gives)
