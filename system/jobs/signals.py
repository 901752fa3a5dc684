"""A worker's signals: a stop or a restart that wakes every wait, an alarm, the loss of the master.

One per process, on its main thread.
"""

from __future__ import annotations

import fcntl
import os
import select
import signal
import socket
from collections.abc import Callable
from types import FrameType

Handler = Callable[[int, FrameType | None], object] | int | None


class WorkerSignals:
    """Installs handlers, and knows whether the worker was asked to stop, and to say why.

    Attributes:
        stopping: Whether to finish the running job and end.
        restarting: Whether that is to make room for a worker with newer code.
    """

    def __init__(self) -> None:
        """Install nothing yet."""
        self.stopping = False
        self.restarting = False
        self._on_alarm: Callable[[], None] | None = None
        self._on_hangup: Callable[[], None] | None = None
        self._reader, self._writer = socket.socketpair()
        self._reader.setblocking(False)
        self._writer.setblocking(False)
        self._previous: dict[int, Handler] = {}
        self._previous_wakeup = -1

    @property
    def wake_fd(self) -> int:
        """Readable after any signal until `drain`."""
        return self._reader.fileno()

    def install(self, on_alarm: Callable[[], None], on_hangup: Callable[[], None]) -> None:
        """Take over SIGTERM, SIGUSR2, SIGINT, SIGALRM and SIGIO, and unblock them.

        Args:
            on_alarm: Called when the alarm of `arm` goes off.
            on_hangup: Called when the descriptor of `watch_hangup` changes.
        """
        self._on_alarm = on_alarm
        self._on_hangup = on_hangup
        self._previous_wakeup = signal.set_wakeup_fd(
            self._writer.fileno(), warn_on_full_buffer=False
        )
        handlers: dict[int, Handler] = {
            signal.SIGTERM: self._stop,
            signal.SIGUSR2: self._restart,
            # An interrupt from the terminal is the master's to pass on.
            signal.SIGINT: signal.SIG_IGN,
            signal.SIGALRM: self._alarm,
            signal.SIGIO: self._hangup,
        }
        for number, handler in handlers.items():
            self._previous[number] = signal.signal(number, handler)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, handlers.keys())

    def restore(self) -> None:
        """Give the signals back to whoever had them."""
        self.disarm()
        for number, handler in self._previous.items():
            signal.signal(number, handler)
        self._previous.clear()
        signal.set_wakeup_fd(self._previous_wakeup)
        self._reader.close()
        self._writer.close()

    def arm(self, seconds: float) -> None:
        """Have the alarm go off once, `seconds` from now; 0 is never."""
        if seconds > 0:
            signal.setitimer(signal.ITIMER_REAL, seconds)

    def disarm(self) -> None:
        """Have the alarm not go off."""
        signal.setitimer(signal.ITIMER_REAL, 0)

    def watch_hangup(self, fd: int) -> None:
        """Have SIGIO sent to this process when something happens to a socket."""
        fcntl.fcntl(fd, fcntl.F_SETOWN, os.getpid())
        flags = fcntl.fcntl(fd, fcntl.F_GETFL)
        fcntl.fcntl(fd, fcntl.F_SETFL, flags | os.O_ASYNC)

    def drain(self) -> None:
        """Make `wake_fd` unreadable again."""
        try:
            while self._reader.recv(4096):
                pass
        except BlockingIOError:
            return

    def pause(self, seconds: float) -> None:
        """Wait; a signal ends it early."""
        if seconds > 0 and not self.stopping:
            select.select([self._reader], [], [], seconds)
            self.drain()

    def _stop(self, _signal: int, _frame: FrameType | None) -> None:
        self.stopping = True

    def _restart(self, _signal: int, _frame: FrameType | None) -> None:
        self.restarting = True
        self.stopping = True

    def _alarm(self, _signal: int, _frame: FrameType | None) -> None:
        if self._on_alarm is not None:
            self._on_alarm()

    def _hangup(self, _signal: int, _frame: FrameType | None) -> None:
        if self._on_hangup is not None:
            self._on_hangup()
