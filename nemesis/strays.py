"""Processes of a run that no list names: found by a variable that everything inherits.

Workers and what their jobs start are forked by others than the verifier, so its ledger does not
know them. They have its mark in their environment, as a fork keeps it and an exec passes it on.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Final

from .process import ProcessGoneError
from .world import Target

RUN_VARIABLE: Final = "ATLEASTONCE_RUN"


def mark_of(run: Path) -> str:
    """The mark of everything that a run in this folder starts, as it stands in an environment."""
    return f"{RUN_VARIABLE}={run}"


def find_strays(mark: str) -> list[Target]:
    """The living processes with a mark, whoever their parent is; the caller's own is none.

    Costs about 20 µs for each process of the machine. Those of other users cannot be looked at,
    and are not ours.
    """
    found = []
    wanted = mark.encode()
    for entry in os.scandir("/proc"):
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        with suppress(OSError, ProcessGoneError):
            target = Target.of(int(entry.name), "")
            # A zombie has no environment left.
            if wanted in Path(entry.path, "environ").read_bytes().split(b"\0"):
                found.append(Target(target.pid, target.start_time, _name_of(entry.path)))
    return found


def _name_of(folder: str) -> str:
    """What a process is, from its command line."""
    words = Path(folder, "cmdline").read_bytes().decode("utf-8", "replace").split("\0")
    modules = [word for word in words if "." in word and "/" not in word]
    return f"{(modules or words or ['?'])[0]} (pid {Path(folder).name})"
