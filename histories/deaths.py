"""Deaths of processes, each written by the process that reaped it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Literal

import msgspec

from .lines import read_lines

Role = Literal["worker", "fork-server", "master", "node", "stranger", "links", "witness"]


class Death(msgspec.Struct, frozen=True, kw_only=True):
    """One line of `deaths.jsonl`.

    Attributes:
        v: Format version.
        t_ns: CLOCK_MONOTONIC when the parent saw the death.
        wall_ns: Wall clock beside it, for people.
        host: Name of the host.
        boot: Boot id of the host.
        pid: The dead process.
        status: Raw wait status.
        signal: Signal that killed it, or None.
        exit: Exit status, or None.
        role: What it was.
        node: Name of the node, for nodes.
        marker: Reason that a worker left in its exit marker (`timeout`, `memory`, `restart`).
        popping: A pop's answer may have been unread when it died.
    """

    t_ns: int
    wall_ns: int
    host: str
    boot: str
    pid: int
    status: int
    role: Role
    signal: int | None = None
    exit: int | None = None
    node: str | None = None
    marker: str | None = None
    popping: bool = False
    v: int = 1


def death_of(
    status: int, pid: int, role: Role, *, t_ns: int, wall_ns: int, host: str, boot: str
) -> Death:
    """Make the record of a reaped process from its raw wait status."""
    signal = os.WTERMSIG(status) if os.WIFSIGNALED(status) else None
    exit_ = os.WEXITSTATUS(status) if os.WIFEXITED(status) else None
    return Death(
        t_ns=t_ns,
        wall_ns=wall_ns,
        host=host,
        boot=boot,
        pid=pid,
        status=status,
        role=role,
        signal=signal,
        exit=exit_,
    )


def read_deaths(path: Path | str) -> list[Death]:
    """Read `deaths.jsonl`, in the order of the file; errors as `read_lines`."""
    return read_lines(path, Death)
