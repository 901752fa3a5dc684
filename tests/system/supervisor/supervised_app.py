"""The application that the supervisor's tests run: jobs that wait for a file, or die."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

from atleastonce.system.jobs.application import Application
from atleastonce.system.jobs.context import JobContext
from atleastonce.system.jobs.events import AttemptStarting
from atleastonce.system.jobs.session import WorkerSession


def make_app() -> Application:
    """Make the application; its log is the file that `SUPERVISED_LOG` names.

    Its code is what the file `code` beside the log says when it is loaded.
    """
    app = Application()
    _add_jobs_of_code_and_children(app)

    @app.job()
    def quick(context: JobContext, payload: dict[str, Any]) -> None:
        note("done", os.getpid())

    @app.job()
    def until_file(context: JobContext, payload: dict[str, Any]) -> None:
        while not Path(payload["file"]).exists():
            rest(0.005)
        note("done", os.getpid())

    @app.job()
    def nap(context: JobContext, payload: dict[str, Any]) -> None:
        rest(payload["ms"] / 1000)
        note("done", context.job_id)

    @app.job()
    def crash(context: JobContext, payload: dict[str, Any]) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    @app.job(tries=3, backoff_s=(0,))
    def throw_once(context: JobContext, payload: dict[str, Any]) -> None:
        if context.attempt == 1:
            raise ValueError("once")
        note("done", os.getpid())

    @app.job()
    def throw(context: JobContext, payload: dict[str, Any]) -> None:
        raise ValueError("always")

    @app.job(timeout_s=0.15)
    def overrun(context: JobContext, payload: dict[str, Any]) -> None:
        rest(30)

    @app.job()
    def leave_children(context: JobContext, payload: dict[str, Any]) -> None:
        for detached in (False, True):
            read, write = os.pipe()
            if os.fork() == 0:
                if detached:
                    os.setsid()
                signal.signal(signal.SIGTERM, signal.SIG_IGN)
                note("detached" if detached else "child", os.getpid())
                os.close(write)
                while True:
                    rest(1)
            os.close(write)
            os.read(read, 1)
            os.close(read)
        note("done", os.getpid())

    app.listen(AttemptStarting, lambda e: note("started", e.job_id, e.attempt, os.getpid()))
    return app


def _add_jobs_of_code_and_children(app: Application) -> None:
    code_file = Path(os.environ["SUPERVISED_LOG"]).with_name("code")
    code = code_file.read_text(encoding="utf-8") if code_file.exists() else "first"
    if code == "broken":
        raise SyntaxError("code that does not load")

    @app.job()
    def tell_code(context: JobContext, payload: dict[str, Any]) -> None:
        note("code", context.job_id, code)

    @app.job()
    def code_until_file(context: JobContext, payload: dict[str, Any]) -> None:
        while not Path(payload["file"]).exists():
            rest(0.005)
        note("code", context.job_id, code)

    @app.job()
    def ask_for_restart(context: JobContext, payload: dict[str, Any]) -> None:
        os.kill(os.getpid(), signal.SIGUSR2)

    @app.job()
    def fork_and_wait(context: JobContext, payload: dict[str, Any]) -> None:
        child = os.fork()
        if child == 0:
            return
        os.waitpid(child, 0)
        rest(1)
        note("done", os.getpid())

    @app.job()
    def spawn_children(context: JobContext, payload: dict[str, Any]) -> None:
        for detached in (False, True):
            child = subprocess.Popen(["sleep", "600"], start_new_session=detached)
            note("detached" if detached else "child", child.pid)
        note("done", os.getpid())
        while not Path(payload["file"]).exists():
            rest(0.005)


def rest(seconds: float) -> None:
    """Let time pass; a signal's handler may end it by raising."""
    select.select([], [], [], seconds)


def note(*words: object) -> None:
    """Append one line to the log, at once."""
    line = " ".join(str(word) for word in (time.monotonic_ns(), *words)) + "\n"
    fd = os.open(os.environ["SUPERVISED_LOG"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, line.encode())
    os.close(fd)


def make_slow_app() -> Application:
    """A factory of an application with a job that may take longer than its lease."""
    app = make_app()
    app.job("slow", timeout_s=60)(lambda context, payload: None)
    return app


def break_pops() -> Application:
    """A factory of an application that has broken how its workers pop."""
    from atleastonce.system.jobs import popping

    def pop_something_else(session: WorkerSession, wait_s: float) -> None:
        raise TypeError("a pop of something else")

    popping.send_pop = pop_something_else
    return make_app()


def leave_a_thread() -> Application:
    """A factory that leaves a thread running."""
    import threading

    threading.Thread(target=rest, args=(60,), daemon=True).start()
    return Application()


def leave_a_socket() -> Application:
    """A factory that leaves a connection open."""
    import socket

    app = Application()
    app.connection_to_broker = socket.socket()  # type: ignore[attr-defined]
    return app


def fail_to_load() -> Application:
    """A factory that raises."""
    raise RuntimeError("no such database")


not_an_application = 7


def load_for_ever() -> Application:
    """A factory that never returns."""
    note("loading", os.getpid())
    while True:
        rest(1)


def load_once_at_once() -> Application:
    """A factory that returns at the first call, and at later ones when the file `gate` is there."""
    log = Path(os.environ["SUPERVISED_LOG"])
    is_first = not log.exists()
    note("loading", os.getpid())
    while not (is_first or log.with_name("gate").exists()):
        rest(0.005)
    return make_app()
