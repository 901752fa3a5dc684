"""Limits of a process that runs (`prlimit(2)`), and what it has used."""

from __future__ import annotations

import os
import resource
from contextlib import suppress
from pathlib import Path
from typing import Final

from ..histories.ops import Json
from .process import ProcessGoneError, start_time

_TICKS: Final = os.sysconf("SC_CLK_TCK")


def set_soft(pid: int, which: int, soft: int) -> None:
    """Set a soft limit of a process that runs; the hard one stays, as it could not be raised again.

    Raises:
        ProcessLookupError: It has ended.
    """
    _, hard = resource.prlimit(pid, which)
    resource.prlimit(pid, which, (soft, hard))


def give_back(thing: dict[str, Json]) -> list[str]:
    """Undo a limit of a process that outlived the run; `thing` is what a limit's fault owes."""
    pid, which, soft = thing["pid"], thing["resource"], thing["soft"]
    assert isinstance(pid, int), thing
    assert isinstance(which, int), thing
    assert isinstance(soft, int), thing
    with suppress(ProcessGoneError, ProcessLookupError):
        if start_time(pid) == thing["start_time"]:
            set_soft(pid, which, soft)
            return [f"gave process {pid} its limit {which} of {soft} back"]
    return []


def cpu_s(pid: int) -> float:
    """Processor time that a process has used, in seconds; 0 if it is gone."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return 0.0
    fields = text.rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS
