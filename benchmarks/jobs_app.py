"""The application whose workers run the shared body of the comparison.

Outside the package `jobs`: a pool forks from a process with one thread, and numpy starts more.
"""

from __future__ import annotations

from atleastonce.system.jobs.application import Application
from atleastonce.system.jobs.context import JobContext

from .peers import body
from .peers.producing import Arguments


def application() -> Application:
    """Return an application with the one job."""
    app = Application()

    @app.job(name="run", tries=3)
    def run(_context: JobContext, job: Arguments) -> None:
        body.run(*job)

    return app
