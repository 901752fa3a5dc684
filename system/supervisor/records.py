"""What the supervisor leaves for those who judge it: deaths, hand-backs, and its present state.

`deaths.jsonl` and `handbacks.jsonl` grow by one line, one `write(2)`, at a time; `status.json` is
replaced as a whole. A line is in the page cache, hence safe from the death of its writer, once
the call returns.
"""

from __future__ import annotations

import os
import platform
import time
from pathlib import Path
from typing import Literal

import msgspec

from .core.exits import exit_code, exit_signal
from .linux import boot_id

Role = Literal["worker", "fork-server"]
WorkerState = Literal["idle", "prefetched", "running"]
PoolState = Literal["starting", "running", "pausing", "paused", "terminating", "stopped"]

Maintenance = Literal["off", "entering", "on"]


class Death(msgspec.Struct, frozen=True, kw_only=True):
    """One reaped process.

    Attributes:
        t_ns: CLOCK_MONOTONIC when its parent reaped it.
        wall_ns: Wall clock beside it.
        host: Host name.
        boot: Boot id of the host.
        pid: The process.
        status: Raw wait status.
        signal: Signal that ended it, or None.
        exit: Exit code, or None.
        role: What it was.
        marker: The exit marker it left.
        popping: Whether it died with a pop's answer possibly unread.
    """

    t_ns: int
    wall_ns: int
    host: str
    boot: str
    pid: int
    status: int
    signal: int | None
    exit: int | None
    role: Role
    marker: str | None
    popping: bool
    v: int = 1


class HandBack(msgspec.Struct, frozen=True, kw_only=True):
    """One lease of a dead worker, and what was done about it.

    Attributes:
        t_ns: CLOCK_MONOTONIC when it was sent, or decided against.
        pid: The dead worker.
        lease: The lease.
        unstarted: Jobs that go back uncharged.
        ran: Jobs that go back with the run counted.
        result: `sent` when the broker confirmed it, `refused` when it said no or was never
            reached, `unknown` when the answer was lost, `skipped` when nothing was sent.
        reason: Why, or an empty string.
    """

    t_ns: int
    pid: int
    lease: str
    unstarted: list[str]
    ran: list[str]
    result: Literal["sent", "refused", "unknown", "skipped"]
    reason: str
    v: int = 1


class WorkerStatus(msgspec.Struct, frozen=True, kw_only=True):
    """One living worker in `status.json`.

    Attributes:
        pid: Its pid.
        state: What it does.
        job: The job it runs, or None.
        since_ns: CLOCK_MONOTONIC when the master saw this state begin.
        leases: How many leases it holds.
        code: Which start of new code it runs, from 1.
        failing_since_ns: CLOCK_MONOTONIC of the first pop since which none has worked, or None.
    """

    pid: int
    state: WorkerState
    job: str | None
    since_ns: int
    leases: int
    code: int = 1
    failing_since_ns: int | None = None


class Answered(msgspec.Struct, frozen=True, kw_only=True):
    """A request that the supervisor took.

    Attributes:
        nonce: The request's.
        action: What it asked.
        refused: Why it was not obeyed, or None.
        t_us: CLOCK_MONOTONIC, microseconds.
    """

    nonce: str
    action: str
    refused: str | None
    t_us: int


class PoolStatus(msgspec.Struct, frozen=True, kw_only=True):
    """One pool that grows and shrinks.

    Attributes:
        name: Its name.
        target: Workers that it should come to have.
        active: Workers that it has or is about to start.
        draining: Workers that were told to finish.
        circuit: The worst state among its queues' circuits.
        depths: What each queue held at the last look; empty when it could not be read.
    """

    name: str
    target: int
    active: int
    draining: int
    circuit: str
    depths: dict[str, int]


class Status(msgspec.Struct, frozen=True, kw_only=True):
    """`status.json`.

    Attributes:
        t_ns: CLOCK_MONOTONIC of the writing, which is the heartbeat.
        master: Pid of the master.
        fork_server: Pid of the fork server, or None.
        state: What the pool does.
        circuit: `closed`, `open` or `probing`.
        workers: The living workers, by pid.
        instance: This life of this master.
        desired: How many workers there should be.
        code: How often new code was started, the first start included.
        is_restarting: Whether new code was asked for and does not have every worker yet.
        restart_failure: Why the last restart did not happen, or None.
        start_failure: Why no code could be loaded at all, or None.
        maintenance: `entering` while workers finish because of it.
        has_forced: Whether a pool works in maintenance, too.
        heartbeat_timeout_s: A status older than this is no sign of life.
        not_consuming_after_s: A worker whose pops have failed for so long does not consume.
        control_ttl_s: How long a request holds that does not say, and how long one may.
        controls: The latest requests, oldest first.
        pools: The pools that grow and shrink.
    """

    t_ns: int
    master: int
    fork_server: int | None
    state: PoolState
    circuit: str
    workers: list[WorkerStatus]
    instance: str = ""
    desired: int = 0
    code: int = 1
    is_restarting: bool = False
    restart_failure: str | None = None
    start_failure: str | None = None
    maintenance: Maintenance = "off"
    has_forced: bool = False
    heartbeat_timeout_s: float = 15.0
    not_consuming_after_s: float = 60.0
    control_ttl_s: float = 3600.0
    controls: list[Answered] = []
    pools: list[PoolStatus] = []
    v: int = 1


def make_death(pid: int, status: int, role: Role, marker: str | None, popping: bool) -> Death:
    """Make the record of a process that this process has just reaped."""
    return Death(
        t_ns=time.monotonic_ns(),
        wall_ns=time.time_ns(),
        host=platform.node() or "localhost",
        boot=boot_id(),
        pid=pid,
        status=status,
        signal=exit_signal(status),
        exit=exit_code(status),
        role=role,
        marker=marker,
        popping=popping,
    )


def append_line(path: Path, record: msgspec.Struct) -> None:
    """Append one record to a JSON-lines file; two processes may append to the same file.

    Raises:
        OSError: The disk refused it, or took only a part.
    """
    line = msgspec.json.encode(record) + b"\n"
    fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        written = os.write(fd, line)
    finally:
        os.close(fd)
    if written != len(line):
        raise OSError(f"{path}: short write, {written} of {len(line)} bytes")


def replace_file(path: Path, record: msgspec.Struct) -> None:
    """Write a record as a whole file: readers see the old one or the new one.

    Raises:
        OSError: The disk refused it.
    """
    beside = path.with_name(path.name + ".new")
    beside.write_bytes(msgspec.json.encode(record) + b"\n")
    beside.replace(path)
