"""Deaths from both who reap: the fork server for its workers, the verifier for all others."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from ..histories.deaths import read_deaths
from ..histories.errors import DamagedEvidenceError
from ..histories.lines import write_lines
from ..system.jobs.journal import read_debts
from .reaper import Identity
from .store import RunPaths
from .supervised import Supervised

_SUPERVISOR_DEATHS: Final = "deaths.jsonl"
_HAND_BACKS: Final = "handbacks.jsonl"
_WORKERS: Final = "workers"


def identify_orphan(supervisors: Sequence[Supervised], pid: int) -> Identity:
    """Say what an orphan was, while it is still a zombie.

    A worker's journal tells whether a pop's answer may have been unread; a new supervisor deletes
    it, so it is read here, before the death is announced.
    """
    if any(supervisor.watch.was_fork_server(pid) for supervisor in supervisors):
        return Identity("fork-server")
    is_popping = (read_debts(each.state / _WORKERS, pid).popping for each in supervisors)
    return Identity("worker", popping=any(is_popping))


def merge_deaths(run: RunPaths) -> None:
    """Write `deaths.jsonl` and copy `handbacks.jsonl`, from what each reaper left.

    Safe to repeat. A source that cannot be read is copied as it is, so that the checkers see the
    damage and say so.
    """
    states = run.supervisor_states()
    sources = (*(state / _SUPERVISOR_DEATHS for state in states), run.reaped)
    try:
        deaths = [death for source in sources for death in read_deaths(source)]
    except (DamagedEvidenceError, ValueError):
        run.deaths.write_bytes(b"".join(_bytes(source) for source in sources))
    else:
        deaths.sort(key=lambda death: death.t_ns)
        write_lines(run.deaths, deaths)
    found = [state / _HAND_BACKS for state in states if (state / _HAND_BACKS).exists()]
    if found:
        run.hand_backs.write_bytes(b"".join(_bytes(path) for path in found))


def _bytes(path: Path) -> bytes:
    return path.read_bytes() if path.exists() else b""
