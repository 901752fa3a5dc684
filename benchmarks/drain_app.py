"""The application whose workers run the shared body."""

from __future__ import annotations

import os
import time
from typing import Any

from atleastonce.system.jobs.application import Application
from atleastonce.system.jobs.context import JobContext

from .peers import body


def application() -> Application:
    """Return an application with the two jobs of the measurements."""
    app = Application()
    ends = os.environ["BENCH_ENDS"]

    @app.job(name="work", tries=3)
    def work(_context: JobContext, payload: dict[str, Any]) -> None:
        body.work(ends, float(payload["sleep_ms"]))

    @app.job(name="long", tries=3)
    def long(context: JobContext, payload: dict[str, Any]) -> None:
        path = os.path.join(ends, "starts")
        line = f"{payload['number']} {context.attempt} {os.getpid()} {time.monotonic_ns()}\n"
        file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        os.write(file, line.encode())
        os.close(file)
        if context.attempt == 1:
            time.sleep(float(payload["sleep_s"]))

    return app
