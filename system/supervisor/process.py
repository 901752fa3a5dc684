"""The master's process, from its configuration to its exit status."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import trio

from .config import ConfigError, SupervisorConfig, load_config
from .fork_link import BootError
from .linux import adopt_orphans
from .logbook import Logbook
from .master import Master
from .statedir import StateDirectoryError, open_state_directory


def run_process(path: str) -> int:
    """Run a supervisor until it is stopped; return its exit status.

    Args:
        path: Its configuration.
    """
    try:
        config = load_config(Path(path))
    except ConfigError as error:
        return _refuse(error.problems, 2)
    return run_supervisor(config)


def run_supervisor(config: SupervisorConfig) -> int:
    """Run a supervisor until it is stopped; return its exit status."""
    try:
        directory, lock = open_state_directory(Path(config.state_dir).absolute())
        master = Master(config, directory, Logbook("master"))
    except StateDirectoryError as error:
        return _refuse([str(error)], 2)
    adopt_orphans()
    failures: list[str] = []
    try:
        trio.run(master.run)
    except* (BootError, StateDirectoryError) as group:
        failures += _leaves(group)
    os.close(lock)
    return _refuse([line for text in failures for line in text.splitlines()], 1) if failures else 0


def _leaves(group: BaseExceptionGroup[BaseException]) -> list[str]:
    found = []
    for error in group.exceptions:
        found += _leaves(error) if isinstance(error, BaseExceptionGroup) else [str(error)]
    return found


def _refuse(lines: list[str], status: int) -> int:
    for line in lines:
        sys.stderr.write(f"supervisor: {line}\n")
    return status
