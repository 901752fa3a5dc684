"""The folder of one run: where each file lies, and all its records together."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec

from .attempt_reader import FileColumns, read_file
from .deaths import Death
from .dispatches import DispatchTable
from .errors import Damage, DamagedEvidenceError
from .faults import Fault, FaultEvent, group_faults
from .history_reader import History, read_history
from .interning import Names
from .lines import Record, read_lines
from .memory import MemorySample
from .ops import Op
from .parallel import read_with_processes
from .scenario import Scenario, read_scenario
from .scheduling import SchedulingSample
from .table import AttemptTable, assemble

_SMALL_BYTES: Final = 64 << 20
_PROCESSES_MAX: Final = 4


class HandBack(msgspec.Struct, frozen=True, kw_only=True):
    """One line of `handbacks.jsonl`: what the supervisor gave back for a dead worker."""

    t_ns: int
    pid: int
    lease: str | None = None
    unstarted: list[str] = []
    ran: list[str] = []
    result: str = ""
    reason: str | None = None
    v: int = 1


@dataclass(frozen=True, slots=True)
class RunRecords:
    """Everything that a checker may look at.

    Attributes:
        scenario: None where `scenario.json` is missing.
        attempts: The attempt log of all processes.
        dispatches: Dispatches, one row per invocation.
        ops: All other operations, invocations and completions.
        deaths: Deaths in order of time.
        faults: Faults in order of appearance.
        hand_backs: Hand-backs in order of time.
        damage: Evidence that could not be read.
        torn: Files whose last record was torn by a death (tolerated).
        scheduling: How long processes waited for a core, in order of time; none where nobody
            sampled it.
        memory: How much memory processes held, in order of time; likewise.
    """

    scenario: Scenario | None
    attempts: AttemptTable
    dispatches: DispatchTable
    ops: tuple[Op, ...]
    deaths: tuple[Death, ...]
    faults: tuple[Fault, ...]
    hand_backs: tuple[HandBack, ...] = ()
    damage: tuple[Damage, ...] = ()
    torn: tuple[str, ...] = ()
    scheduling: tuple[SchedulingSample, ...] = ()
    memory: tuple[MemorySample, ...] = ()


class RunFolder:
    """The folder of one run, `store/<workload>-<nemesis>/<UTC>/`."""

    def __init__(self, path: Path | str):
        self.path = Path(path)

    @property
    def scenario(self) -> Path:
        """`scenario.json`."""
        return self.path / "scenario.json"

    @property
    def history(self) -> Path:
        """`history.jsonl`."""
        return self.path / "history.jsonl"

    @property
    def attempts(self) -> Path:
        """Folder of the attempt log."""
        return self.path / "attempts"

    @property
    def deaths(self) -> Path:
        """`deaths.jsonl`, merged."""
        return self.path / "deaths.jsonl"

    @property
    def faults(self) -> Path:
        """`faults.jsonl`."""
        return self.path / "faults.jsonl"

    @property
    def hand_backs(self) -> Path:
        """`handbacks.jsonl`."""
        return self.path / "handbacks.jsonl"

    @property
    def scheduling(self) -> Path:
        """`scheduling.jsonl`."""
        return self.path / "scheduling.jsonl"

    @property
    def memory(self) -> Path:
        """`memory.jsonl`."""
        return self.path / "memory.jsonl"

    @property
    def ledger(self) -> Path:
        """`ledger.jsonl`, written by the nemesis."""
        return self.path / "ledger.jsonl"

    @property
    def nodes(self) -> Path:
        """Folder of the nodes' data and logs."""
        return self.path / "nodes"

    @property
    def supervisor(self) -> Path:
        """State folder of the supervisor."""
        return self.path / "supervisor"

    @property
    def verdict(self) -> Path:
        """`verdict.json`."""
        return self.path / "verdict.json"

    def create(self) -> None:
        """Make the folder and its subfolders; raises OSError where they cannot be made."""
        for folder in (self.attempts, self.nodes, self.supervisor):
            folder.mkdir(parents=True, exist_ok=True)

    def read(self, processes: int | None = None) -> RunRecords:
        """Read all records; what cannot be read becomes `damage`.

        A history of a million attempts takes seconds; it is read by `processes` processes (default:
        one for each processor, at most four), a small one by this process.

        Raises:
            UnknownVersionError: A file has another format version.
        """
        return read_run(self, processes)


def read_run(folder: RunFolder, processes: int | None = None) -> RunRecords:
    """Read all records of a run, see `RunFolder.read`."""
    damage: list[Damage] = []
    jobs = Names()
    paths = attempt_files(folder.attempts)
    history, files = _read_bulk(folder.history, paths, jobs, processes)
    attempts = assemble(files, jobs)
    torn = list(attempts.torn)
    if history.torn:
        torn.append(str(folder.history))
    if history.damage:
        damage.append(history.damage)
    damage.extend(attempts.damage)
    scenario: Scenario | None = None
    try:
        scenario = read_scenario(folder.scenario)
    except FileNotFoundError:
        pass
    except DamagedEvidenceError as error:
        damage.append(error.damage)
    deaths = _tolerant(folder.deaths, Death, damage)
    faults = _tolerant(folder.faults, FaultEvent, damage)
    hand_backs = _tolerant(folder.hand_backs, HandBack, damage)
    scheduling = _tolerant(folder.scheduling, SchedulingSample, damage)
    memory = _tolerant(folder.memory, MemorySample, damage)
    return RunRecords(
        scenario=scenario,
        attempts=attempts,
        dispatches=history.dispatches,
        ops=tuple(history.ops),
        deaths=tuple(sorted(deaths, key=lambda death: death.t_ns)),
        faults=tuple(group_faults(faults)),
        hand_backs=tuple(sorted(hand_backs, key=lambda hand_back: hand_back.t_ns)),
        damage=tuple(damage),
        torn=tuple(torn),
        scheduling=tuple(sorted(scheduling, key=lambda sample: sample.t_ns)),
        memory=tuple(sorted(memory, key=lambda sample: sample.t_ns)),
    )


def _read_bulk(
    history: Path, attempts: list[Path], jobs: Names, processes: int | None
) -> tuple[History, list[FileColumns]]:
    if processes is None:
        size = sum(path.stat().st_size for path in (history, *attempts) if path.exists())
        cores = len(os.sched_getaffinity(0))
        processes = min(_PROCESSES_MAX, cores) if size > _SMALL_BYTES else 1
    if processes > 1:
        return read_with_processes(history, attempts, jobs, processes)
    return read_history(history, jobs), [read_file(path, jobs) for path in attempts]


def attempt_files(folder: Path) -> list[Path]:
    """Return the files of an attempt log, in order of name; none where the folder is missing."""
    return sorted(folder.glob("*.jsonl"))


def read_attempts(folder: Path | str) -> AttemptTable:
    """Read an attempt log by this process alone; see `RunFolder.read` for the errors."""
    jobs = Names()
    return assemble([read_file(path, jobs) for path in attempt_files(Path(folder))], jobs)


def _tolerant(path: Path, kind: type[Record], damage: list[Damage]) -> list[Record]:
    try:
        return read_lines(path, kind)
    except DamagedEvidenceError as error:
        damage.append(error.damage)
        return []
