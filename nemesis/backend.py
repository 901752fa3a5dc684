"""A server that an audited system uses, such as Redis: the run starts it, so it may be hit."""

from __future__ import annotations

import signal
import subprocess
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import trio

from .ledger import Ledger, read_ledger
from .process import ProcessGoneError, is_alive
from .world import Target

_POLL_S: Final = 0.02
_TRY_S: Final = 1.0
_ANSWER_BYTES: Final = 512


class NotOursError(ValueError):
    """A process that this run has not started, so that no fault may hit it."""


@dataclass(frozen=True, slots=True)
class Greeting:
    """How to see that a server serves.

    Attributes:
        host: Where it listens.
        port: Likewise.
        say: What is sent to it; nothing if an open port is enough.
        answer: How its answer begins.
    """

    host: str
    port: int
    say: bytes = b""
    answer: bytes = b""

    async def is_answered(self) -> bool:
        """Greet once; False without the right answer within a second."""
        with trio.move_on_after(_TRY_S):
            try:
                async with await trio.open_tcp_stream(self.host, self.port) as stream:
                    if not self.say:
                        return True
                    await stream.send_all(self.say)
                    return (await stream.receive_some(_ANSWER_BYTES)).startswith(self.answer)
            except (OSError, trio.BrokenResourceError):
                return False
        return False


def redis_greeting(host: str, port: int) -> Greeting:
    """How Redis says that it serves; while it loads its data, it says something else."""
    return Greeting(host, port, b"PING\r\n", b"+PONG")


class StartedBackend:
    """A server that is a child of this process; used from the main thread.

    Args:
        name: What it is called, such as `redis`.
        command: Starts it in the foreground.
        folder: Where it runs and logs.
        greeting: How it is seen to serve.
        ledger: Learns of each of its processes.
        started: Hears of each of them, so that whoever reaps children knows it.
    """

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        folder: Path,
        greeting: Greeting,
        ledger: Ledger,
        started: Callable[[subprocess.Popen[bytes]], None],
    ) -> None:
        self._name = name
        self._command = tuple(command)
        self._folder = folder
        self._greeting = greeting
        self._ledger = ledger
        self._started = started
        self._target: Target | None = None

    @property
    def target(self) -> Target | None:
        """See `world.Backend`."""
        return self._target if self._target is not None and is_alive(self._target) else None

    def start(self) -> None:
        """See `world.Backend`."""
        assert threading.current_thread() is threading.main_thread(), "spawned off the main thread"
        with (self._folder / f"{self._name}.log").open("ab") as log:
            process = subprocess.Popen(
                self._command,
                cwd=self._folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self._target = Target.of(process.pid, self._name)
        self._ledger.process_started(self._target)
        self._started(process)

    async def wait_ready(self, timeout_s: float) -> bool:
        """See `world.Backend`."""
        with trio.move_on_after(timeout_s):
            while not await self._greeting.is_answered():
                await trio.sleep(_POLL_S)
            return True
        return False


def target_of_pid_file(pid_file: Path, name: str, ledger: Path) -> Target:
    """The process that a pid file names, for a server that runs in the background.

    Raises:
        NotOursError: There is no such process, or the ledger does not say that the run started it.
        OSError: The file cannot be read.
    """
    text = pid_file.read_text(encoding="ascii").strip()
    try:
        target = Target.of(int(text), name)
    except (ValueError, ProcessGoneError):
        raise NotOursError(f"{pid_file} names no process: {text[:40]!r}") from None
    known = {(each.pid, each.start_time) for each in read_ledger(ledger).processes}
    if (target.pid, target.start_time) not in known:
        raise NotOursError(f"{name} (pid {target.pid}) was not started by this run")
    return target


SIGNALS: Final = {
    "kill-backend": signal.SIGKILL,
    "restart-backend": signal.SIGTERM,
    "pause-backend": signal.SIGSTOP,
}
