"""The fork server: loads the application once and forks workers from it.

Workers that load it themselves are started here, too, so that all have the same parent; when all
are such, it loads nothing.

Run by the master as `python -m atleastonce.system.supervisor.fork_server REPLY_FD`, requests on
standard input. It has one thread and opens no connection. It reaps its workers and puts each
death on record before it tells the master, so that the record is older than any hand-back. When
the master is gone it kills the workers, reaps them and ends.
"""

from __future__ import annotations

import encodings.idna  # noqa: F401 (the first connection needs it; here all workers share it)
import os
import select
import signal
import sys
import time
import traceback
from pathlib import Path
from typing import Final

from ..jobs.application import Application
from ..jobs.exitmark import take_mark
from ..jobs.journal import read_debts
from ..jobs.rehearsal import rehearse
from .application import LoadError, load_application
from .fork_memory import prepare_to_fork
from .forkwire import (
    Boot,
    BootFailed,
    Exited,
    Fork,
    Forked,
    ForkFailed,
    ForkReply,
    Lines,
    Ready,
    decode_request,
    encode,
)
from .fresh_worker import Recipe, start_fresh_worker
from .linux import adopt_orphans, die_with_parent, kill_group, open_sockets, thread_count
from .load_apart import load_apart, own_timeouts_s
from .logbook import Logbook
from .orphans import kill_orphans
from .records import append_line, make_death
from .worker_process import fork_worker

THREAD_WAIT_S: Final = 2.0
_READ_BYTES: Final = 1 << 16
_STDIN: Final = 0


class ForkServer:
    """One booted application and the workers forked from it.

    Args:
        app: The application; None when every worker loads it itself.
        boot: What the master asked for.
        reply_fd: Where replies go.
        master: Pid of the master.
    """

    def __init__(self, app: Application | None, boot: Boot, reply_fd: int, master: int) -> None:
        self._app = app
        self._boot = boot
        self._deaths = Path(boot.deaths)
        self._reply_fd = reply_fd
        self._master = master
        self._log = Logbook("fork-server")
        self._state_dirs: dict[int, str] = {}
        self._wake_read, self._wake_write = os.pipe()
        os.set_blocking(self._wake_read, False)
        os.set_blocking(self._wake_write, False)

    def serve(self, lines: Lines) -> None:
        """Serve until the master is gone, then end every worker.

        Args:
            lines: The stream of requests, as far as it was read.
        """
        signal.signal(signal.SIGCHLD, _note)
        signal.signal(signal.SIGTERM, _note)
        signal.set_wakeup_fd(self._wake_write, warn_on_full_buffer=False)
        poll = select.poll()
        poll.register(_STDIN, select.POLLIN)
        poll.register(self._wake_read, select.POLLIN)
        while os.getppid() == self._master:
            ready = {fd for fd, _ in poll.poll()}
            if self._wake_read in ready:
                os.read(self._wake_read, _READ_BYTES)
            self.reap()
            if _STDIN in ready:
                data = os.read(_STDIN, _READ_BYTES)
                if not data:
                    break
                for line in lines.feed(data):
                    self._obey(line)
        self.end_workers()

    def reap(self) -> None:
        """Reap every dead worker: what it left running, its record, the master, in this order."""
        while self._state_dirs:
            seen = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            if seen is None:
                return
            if seen.si_pid in self._state_dirs:
                # Its pid is not free for others before it is reaped, so this group is its own.
                kill_group(seen.si_pid)
            _, status = os.waitpid(seen.si_pid, 0)
            self._record(seen.si_pid, status)

    def end_workers(self) -> None:
        """SIGKILL every worker with all it started, and reap it; then what earlier ones left."""
        for pid in self._state_dirs:
            # Before its setsid a worker leads no group yet.
            if not kill_group(pid):
                os.kill(pid, signal.SIGKILL)
        while self._state_dirs:
            pid, status = os.waitpid(-1, 0)
            self._record(pid, status)
        while kill_orphans():
            time.sleep(0.01)

    def _record(self, pid: int, status: int) -> None:
        state_dir = self._state_dirs.pop(pid, None)
        if state_dir is None:
            return
        marker = take_mark(state_dir, pid, status)
        popping = read_debts(state_dir, pid).popping
        death = make_death(pid, status, "worker", marker, popping)
        append_line(self._deaths, death)
        self._reply(Exited(pid, status, marker, death.t_ns))

    def _obey(self, line: bytes) -> None:
        request = decode_request(line)
        assert isinstance(request, Fork), f"a second boot request: {request}"
        try:
            pid = self._start(request)
        except OSError as error:
            self._reply(ForkFailed(request.id, str(error)))
        else:
            self._state_dirs[pid] = request.worker.state_dir
            self._reply(Forked(request.id, pid))

    def _start(self, request: Fork) -> int:
        if request.fresh:
            boot, worker = self._boot, request.worker
            recipe = Recipe(boot.app, worker, boot.boot_timeout_s, boot.generation_fd)
            return start_fresh_worker(recipe)
        assert self._app is not None, "a fork of an application that was not loaded"
        own = (self._reply_fd, self._wake_read, self._wake_write)
        return fork_worker(self._app, request.worker, own)

    def _reply(self, reply: ForkReply) -> None:
        data = encode(reply)
        try:
            while data:
                data = data[os.write(self._reply_fd, data) :]
        except BrokenPipeError:
            self._log.warning("master gone", reply=type(reply).__name__)


def _note(number: int, frame: object) -> None:
    """Let a signal interrupt the poll; the wake-up pipe carries it."""


def boot(spec: str) -> Application:
    """Load the application.

    Raises:
        LoadError: It cannot be loaded, or it left a thread or a connection behind, which would
            not survive a fork.
    """
    sockets = open_sockets()
    app = load_application(spec)
    deadline = time.monotonic() + THREAD_WAIT_S
    while (threads := thread_count()) > 1 and time.monotonic() < deadline:
        time.sleep(0.01)
    if threads > 1:
        raise LoadError(
            f"loading {spec} left {threads - 1} threads running{_thread_names()}; workers are "
            "forked from one: start threads in the jobs, or set prefork to false"
        )
    if opened := open_sockets() - sockets:
        raise LoadError(f"loading {spec} left {len(opened)} sockets open; open them in the jobs")
    return app


def _thread_names() -> str:
    """Name the threads that Python knows of beside this one; others have none."""
    # Late: whoever left no thread behind does without, and so do all workers.
    import threading

    names = [t.name for t in threading.enumerate() if t is not threading.main_thread()]
    return f" ({', '.join(names)})" if names else ""


def practise(state_dir: Path) -> None:
    """Run the workers' loop dry; before the application is there, which may change anything."""
    if not rehearse(state_dir / "rehearsal"):
        Logbook("fork-server").warning("no rehearsal: workers share less memory")


def _read_boot(lines: Lines) -> Boot | None:
    """Wait for the first request, which comes alone; None when the master is gone."""
    while data := os.read(_STDIN, _READ_BYTES):
        for line in lines.feed(data):
            request = decode_request(line)
            assert isinstance(request, Boot), f"want a boot request first, got {request}"
            return request
    return None


def _master_hung_up() -> bool:
    """Whether the master is gone although its request is there.

    A master that ended before `die_with_parent` sends no signal; but its end of standard input was
    closed before that, so one of the two always tells.
    """
    poll = select.poll()
    poll.register(_STDIN, 0)
    return bool(poll.poll(0))


def main(reply_fd: int) -> int:
    """Run a fork server until its master ends; return the exit status."""
    master = os.getppid()
    adopt_orphans()
    # Until there are workers to end and record, the signal may simply kill.
    die_with_parent(signal.SIGTERM)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    os.set_inheritable(reply_fd, False)
    lines = Lines()
    request = _read_boot(lines)
    if request is None or _master_hung_up():
        return 0
    os.set_inheritable(request.generation_fd, False)
    began = time.monotonic()
    if request.loads:
        practise(Path(request.deaths).parent)
    try:
        app = boot(request.app) if request.loads else None
        timeouts_s = load_apart(request.app) if app is None else own_timeouts_s(app)
    except LoadError as error:
        if error.__cause__ is not None:
            traceback.print_exception(error.__cause__)
        os.write(reply_fd, encode(BootFailed(str(error))))
        return 1
    if app is not None:
        prepare_to_fork()
    ready = Ready(round(time.monotonic() - began, 3), timeouts_s)
    os.write(reply_fd, encode(ready))
    ForkServer(app, request, reply_fd, master).serve(lines)
    return 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1])))
