"""The application that a lane's workers run; it writes the same attempt log as that of `jobs`."""

from __future__ import annotations

import os
import resource
import signal
import time
from typing import Final

import msgspec

from ...system.jobs import Application, JobContext
from ..jobs_app import make_recorded
from .lane import Act

LANE_JOB: Final = "lane"
JOB_EXIT: Final = 66
"""Status with which a job ends its own process; nothing in the system ends with it."""

_BLOCK: Final = 1 << 20
_kept: Final[list[bytearray]] = []


class LaneJobError(Exception):
    """What a lane's job throws."""


class LanePayload(msgspec.Struct, frozen=True):
    """What a lane's job does.

    Attributes:
        acts: What its first, second, … attempt does; the last one repeats.
        work_ms: How long `work` and `fork` last.
        grow_mib: How much memory `grow` takes.
        release_s: Delay of `release`.
    """

    acts: tuple[Act, ...]
    work_ms: int = 0
    grow_mib: int = 0
    release_s: float = 0.0


def run_lane_job(context: JobContext, payload: object) -> None:
    """Do what this attempt of a lane's job is to do.

    Raises:
        LaneJobError: It is to throw.
    """
    job = msgspec.convert(payload, LanePayload)
    act = job.acts[min(context.attempt, len(job.acts)) - 1]
    if act == "throw":
        raise LaneJobError("this job throws")
    if act == "throw-bytes":
        raise LaneJobError(b"\xff\xfe not text \x00".decode("utf-8", "surrogateescape"))
    if act == "release":
        context.release(job.release_s)
    if act == "fail":
        context.fail("this job fails")
    if act in ("kill", "abort", "exit"):
        _end_process(act)
    if act == "fork":
        if os.fork() == 0:
            return
        os.wait()
    if act == "grow":
        _kept.append(bytearray(os.urandom(_BLOCK) * job.grow_mib))
    time.sleep(job.work_ms / 1000)


def _end_process(act: Act) -> None:
    if act == "exit":
        os._exit(JOB_EXIT)
    if act == "abort":
        # What is tested is the death, not what the kernel writes about it.
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        os.abort()
    os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(60)


def make_application() -> Application:
    """Build the application, for the folder and the code version that the environment names.

    Raises:
        KeyError: The environment names no folder for the attempt log.
    """
    app = make_recorded()
    app.job(LANE_JOB)(run_lane_job)
    return app
