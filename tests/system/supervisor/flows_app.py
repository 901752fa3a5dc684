"""An application of chains and a batch, for a supervisor that is a process of its own."""

from __future__ import annotations

import os
from typing import Any

from supervised_app import note, rest  # type: ignore[import-not-found]

from atleastonce.system.jobs import Application, EncryptionKeys, JobContext


def make_app() -> Application:
    """Make the application; its log is the file that `SUPERVISED_LOG` names."""
    app = Application(encryption=EncryptionKeys.from_environment())

    @app.job(encrypted=True, tries=0)
    def link(context: JobContext, payload: dict[str, Any]) -> None:
        note("link", payload["chain"], payload["place"], os.getpid())
        rest(0.02)
        note("linked", payload["chain"], payload["place"])

    @app.job(tries=0)
    def member(context: JobContext, payload: int) -> None:
        note("member", payload, os.getpid())
        rest(0.02)

    @app.job(tries=1)
    def breaks(context: JobContext, payload: object) -> None:
        raise ValueError("broken")

    @app.job(tries=0)
    def called(context: JobContext, payload: dict[str, Any]) -> None:
        note("called", context.job_id.rpartition(".")[2], payload.get("chain", "batch"))

    return app
