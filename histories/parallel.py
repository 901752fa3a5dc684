"""Reads a large run with several processes.

Each is a fresh interpreter (`python -m atleastonce.histories.parallel FOLDER`): forking a process
that may run trio or threads is not safe. A file is read by one process; the files are dealt out so
that all have about the same to do.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec

from .attempt_reader import FileColumns, read_file
from .attempts import RECORD_BYTES
from .errors import UnknownVersionError
from .history_reader import History, read_history
from .interning import Names
from .shipping import pack, unpack

_RECORD_COST: Final = 1.0 / RECORD_BYTES
_HISTORY_COST: Final = 1.0 / 330
_PR_SET_PDEATHSIG: Final = 1
_MODULE: Final = "atleastonce.histories.parallel"


class _Task(msgspec.Struct):
    attempts: list[str]
    history: str | None = None


class ReadingFailedError(RuntimeError):
    """A reading process ended without a result; the message holds its last words."""


def read_with_processes(
    history: Path, attempts: Sequence[Path], jobs: Names, processes: int
) -> tuple[History, list[FileColumns]]:
    """Read a history and attempt files with so many processes; results as from one process.

    Raises:
        UnknownVersionError: A file has another format version.
        ReadingFailedError: A process failed.
    """
    tasks = _deal(history, attempts, processes)
    with tempfile.TemporaryDirectory(prefix="atleastonce-read-") as scratch:
        folders = [Path(scratch) / str(number) for number in range(len(tasks))]
        children = [_spawn(folder, task) for folder, task in zip(folders, tasks, strict=True)]
        found: History | None = None
        by_name: dict[str, FileColumns] = {}
        try:
            for child, folder in zip(children, folders, strict=True):
                child.wait()
                if not (folder / "note").exists():
                    raise _failure(child, folder)
            for folder in folders:
                files, part = unpack(folder, jobs)
                by_name.update((columns.file, columns) for columns in files)
                found = found or part
        finally:
            for child in children:
                child.kill()
                child.wait()
        assert found is not None, f"no task read {history}"
        return found, [by_name[str(path)] for path in attempts]


def _deal(history: Path, attempts: Sequence[Path], processes: int) -> list[_Task]:
    tasks = [_Task([]) for _ in range(processes)]
    loads = [0.0] * processes
    tasks[0].history = str(history)
    loads[0] = history.stat().st_size * _HISTORY_COST if history.exists() else 0.0
    for path in sorted(attempts, key=lambda path: path.stat().st_size, reverse=True):
        least = loads.index(min(loads))
        tasks[least].attempts.append(str(path))
        loads[least] += path.stat().st_size * _RECORD_COST
    return [task for task in tasks if task.attempts or task.history]


def _spawn(folder: Path, task: _Task) -> subprocess.Popen[bytes]:
    folder.mkdir()
    (folder / "task").write_bytes(msgspec.json.encode(task))
    with (folder / "words").open("wb") as words:
        return subprocess.Popen(
            [sys.executable, "-m", _MODULE, str(folder), str(os.getpid())],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=words,
            start_new_session=True,
        )


def _failure(child: subprocess.Popen[bytes], folder: Path) -> Exception:
    if (folder / "version").exists():
        file, version = (folder / "version").read_text().split("\n")
        return UnknownVersionError(file, version)
    words = (folder / "words").read_text(errors="replace")
    return ReadingFailedError(f"reader {child.pid} exit {child.returncode}: {words[-2000:]}")


def read_task(folder: Path) -> None:
    """Read what the folder's task names, into the folder."""
    task = msgspec.json.decode((folder / "task").read_bytes(), type=_Task)
    jobs = Names()
    try:
        history = read_history(Path(task.history), jobs) if task.history else None
        files = [read_file(Path(path), jobs) for path in task.attempts]
    except UnknownVersionError as error:
        (folder / "version").write_text(f"{error.file}\n{error.version}")
        return
    pack(folder, jobs, files, history)


def _main() -> None:
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() == int(sys.argv[2]):
        read_task(Path(sys.argv[1]))


if __name__ == "__main__":
    _main()
