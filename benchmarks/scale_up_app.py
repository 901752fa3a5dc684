"""The application whose one job takes five seconds."""

from __future__ import annotations

import time

from atleastonce.system.jobs.application import Application
from atleastonce.system.jobs.context import JobContext


def make_app() -> Application:
    """Return the application."""
    app = Application()

    @app.job()
    def five_seconds(_context: JobContext, _payload: object) -> None:
        time.sleep(5)

    return app
