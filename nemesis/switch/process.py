"""Starting the switch as a process of its own, and giving it orders."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Iterable, Sequence
from typing import Final

import msgspec
import trio

from .control import Answer, LinkRule, Order, Plan, Port

_MODULE: Final = "atleastonce.nemesis.switch"
_ANSWER_BYTES: Final = 1 << 18
_START_S: Final = 20.0
_ANSWER_S: Final = 5.0


class SwitchError(Exception):
    """The switch did not start, or has ended; the message is one line."""


class SwitchProcess:
    """A running switch.

    Start it on the main thread, which the switch does not outlive, inside the namespace that has
    the ports. Returns when all ports are open.

    Args:
        ports: Name and number of each port.
        network: First three bytes of the addresses that rules are about.
        seed: Of its chances.

    Raises:
        SwitchError: It does not start.
        OSError: The process cannot be made.
    """

    def __init__(self, ports: Iterable[tuple[str, int]], network: bytes, seed: int) -> None:
        plan = Plan([Port(*port) for port in ports], list(network), seed)
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self.process = subprocess.Popen(
                (
                    *(sys.executable, "-P", "-m", _MODULE),
                    *(str(theirs.fileno()), msgspec.json.encode(plan).decode()),
                ),
                stdin=subprocess.DEVNULL,
                pass_fds=(theirs.fileno(),),
                start_new_session=True,
            )
        self._control.settimeout(_START_S)
        try:
            answer = self._control.recv(_ANSWER_BYTES)
        except TimeoutError:
            answer = b""
        if not answer:
            self.close()
            raise SwitchError("the packet switch did not start")
        self._control.setblocking(False)
        self._turn = trio.Lock()

    async def set_rules(self, rules: Sequence[LinkRule]) -> Answer:
        """Replace all rules at once; they are in force when this returns.

        Raises:
            SwitchError: The switch has ended.
        """
        return await self._ask(Order("rules", list(rules)))

    async def counts(self) -> Answer:
        """Ask what the present rules have done.

        Raises:
            SwitchError: The switch has ended.
        """
        return await self._ask(Order("counts"))

    async def _ask(self, order: Order) -> Answer:
        async with self._turn:
            try:
                self._control.send(msgspec.json.encode(order))
                # Shielded: an answer that nobody read would be taken for the next order's.
                with trio.fail_after(_ANSWER_S, shield=True):
                    await trio.lowlevel.wait_readable(self._control)
                told = self._control.recv(_ANSWER_BYTES)
            except (OSError, trio.TooSlowError) as error:
                raise SwitchError(f"the packet switch does not answer: {error}") from None
        if not told:
            raise SwitchError("the packet switch has ended")
        return msgspec.json.decode(told, type=Answer)

    def close(self) -> None:
        """Hang up, by which the switch ends, and wait for that."""
        self._control.close()
        try:
            self.process.wait(_ANSWER_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
