"""The master's end of a fork server: start it, ask it for workers, hear what became of them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import trio

from ..jobs.settings import WorkerSettings
from .forkwire import (
    Boot,
    BootFailed,
    Fork,
    ForkReply,
    Lines,
    Ready,
    Request,
    decode_reply,
    encode,
)
from .orphans import MARK, mark_of

_READ_BYTES = 1 << 16
_MODULE = "atleastonce.system.supervisor.fork_server"


class BootError(Exception):
    """A fork server that cannot serve; the message says why."""


class ForkLink:
    """One fork server.

    Attributes:
        pid: Its pid; it is this process's child until `bury` has reaped it.
        ready: What it said when the application was loaded.
        code: Which start of new code it is, from 1.
    """

    def __init__(
        self,
        process: subprocess.Popen[bytes],
        requests: trio.lowlevel.FdStream,
        replies_fd: int,
        own: set[int],
        code: int,
    ) -> None:
        self._process = process
        self._own = own
        own.add(process.pid)
        self._pidfd = os.pidfd_open(process.pid)
        self._requests = requests
        self._replies = trio.lowlevel.FdStream(replies_fd)
        self._lines = Lines()
        self._pending: list[ForkReply] = []
        self._status: int | None = None
        self.pid = process.pid
        self.code = code
        self.ready = Ready(0.0, {})

    async def replies(self) -> AsyncIterator[ForkReply]:
        """Yield what it says, until it is gone."""
        while True:
            while self._pending:
                yield self._pending.pop(0)
            try:
                data = await self._replies.receive_some(_READ_BYTES)
            except trio.ClosedResourceError:
                return
            if not data:
                return
            self._pending.extend(decode_reply(line) for line in self._lines.feed(data))

    async def fork(self, number: int, settings: WorkerSettings, *, fresh: bool = False) -> None:
        """Ask for a worker; a fork server that is gone takes no request and says nothing."""
        await self._send(Fork(number, settings, fresh))

    def kill(self) -> None:
        """SIGKILL it; the kernel kills its workers with it."""
        signal.pidfd_send_signal(self._pidfd, signal.SIGKILL)

    async def close_requests(self) -> None:
        """Tell it that it is no longer needed: it ends its workers, then itself."""
        await self._requests.aclose()

    async def bury(self) -> int:
        """Wait for its end and reap it, once; return its raw wait status."""
        if self._status is None:
            await trio.lowlevel.wait_readable(self._pidfd)
            _, self._status = os.waitpid(self.pid, 0)
            self._process.returncode = os.waitstatus_to_exitcode(self._status)
            self._own.discard(self.pid)
            os.close(self._pidfd)
        await self._requests.aclose()
        await self._replies.aclose()
        return self._status

    async def boot(self, request: Boot, timeout_s: float) -> None:
        """Have it load the application.

        Raises:
            BootError: It could not, ended, or took longer than `timeout_s`.
        """
        await self._send(request)
        with trio.move_on_after(timeout_s):
            async for reply in self.replies():
                if isinstance(reply, Ready):
                    self.ready = reply
                    return
                assert isinstance(reply, BootFailed), f"{reply} before the application was loaded"
                raise BootError(reply.error)
            raise BootError(f"the fork server ended while it loaded {request.app}")
        raise BootError(f"loading {request.app} took longer than {timeout_s:g} s")

    async def _send(self, request: Request) -> None:
        try:
            await self._requests.send_all(encode(request))
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            return


async def start_fork_server(
    app: str,
    deaths: Path,
    generation_fd: int,
    timeout_s: float,
    own: set[int],
    code: int = 1,
    *,
    loads: bool = True,
) -> ForkLink:
    """Start a fork server and wait until its application is loaded.

    Args:
        app: `module:attribute`.
        deaths: Where it records deaths, in the state directory.
        generation_fd: The lock it holds; this process's copy is closed.
        timeout_s: Longest time for the boot.
        own: Its pid is in this set from its start until it is reaped.
        code: Which start of new code it is.
        loads: Whether any worker is forked from the loaded application.

    Raises:
        BootError: It cannot serve; it has ended.
    """
    # Whether the working directory may hold modules is the caller's choice, here as there.
    flags = ["-P"] if sys.flags.safe_path else []
    requests_read, requests_write = os.pipe()
    replies_read, replies_write = os.pipe()
    try:
        # On this thread: the death signal of a child follows the thread that started it.
        process = subprocess.Popen(
            [sys.executable, *flags, "-m", _MODULE, str(replies_write)],
            stdin=requests_read,
            pass_fds=(replies_write, generation_fd),
            env={**os.environ, MARK: mark_of(deaths.parent)},
            start_new_session=True,
        )
    finally:
        os.close(requests_read)
        os.close(replies_write)
        os.close(generation_fd)
    link = ForkLink(process, trio.lowlevel.FdStream(requests_write), replies_read, own, code)
    try:
        await link.boot(Boot(app, str(deaths), generation_fd, loads, timeout_s), timeout_s)
    except BaseException:
        with trio.CancelScope(shield=True):
            link.kill()
            await link.bury()
        raise
    return link
