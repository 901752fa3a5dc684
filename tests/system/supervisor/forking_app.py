"""An application whose job forks, for a supervisor that is a process of its own."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

from supervised_app import note, rest  # type: ignore[import-not-found]

from atleastonce.system.jobs.application import Application
from atleastonce.system.jobs.context import JobContext
from atleastonce.system.jobs.events import AttemptStarting


def make_app() -> Application:
    """Make the application; its log is the file that `SUPERVISED_LOG` names."""
    app = Application()

    @app.job()
    def fork(context: JobContext, payload: dict[str, Any]) -> None:
        pid = os.fork()
        if pid == 0:
            sys.exit(3)
        note("child", os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
        while not Path(payload["file"]).exists():
            rest(0.005)
        note("done", context.job_id, os.getpid())

    app.listen(AttemptStarting, lambda e: note("started", e.job_id, e.attempt, os.getpid()))
    return app
