"""What the environment of a run's processes says."""

from __future__ import annotations

import os
from typing import Final

from ..workloads.jobs_app import ATTEMPTS_VARIABLE, CODE_FILE_VARIABLE, WORKER_VARIABLE
from .bytecode import bytecode_variables
from .store import RunPaths

SUPERVISOR_MODULE: Final = "atleastonce.system.supervisor"


def variables_of(run: RunPaths, module: str, name: str, supervisors: int) -> dict[str, str]:
    """Return what is added to the verifier's environment for a process.

    Args:
        run: The run's folder.
        module: What the process runs.
        name: Its name.
        supervisors: How many there are in the run.
    """
    variables = {
        ATTEMPTS_VARIABLE: str(run.attempts),
        CODE_FILE_VARIABLE: str(run.code_version),
        WORKER_VARIABLE: name if supervisors > 1 else "worker",
    }
    if module != SUPERVISOR_MODULE:
        # Jobs and what they start have the environment that the caller has.
        variables |= bytecode_variables(os.environ)
    return variables
