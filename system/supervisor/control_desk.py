"""The master's side of requests: it takes them, obeys those that are meant for it, and says so."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

import trio

from .clock import now_us
from .control_files import ControlFileError, list_controls, take_control
from .core.control import Action, Control, refuse
from .logbook import Logbook
from .records import Answered

LOOK_S: Final = 0.2
REMEMBERED: Final = 8


class ControlDesk:
    """Takes requests out of a state directory.

    Args:
        root: The state directory; its folder of requests exists.
        instance: Who obeys.
        obey: Does what is asked, or says why not.
        ttl_s_max: How long a request may hold.
        log: The master's log.

    Attributes:
        answered: The latest requests that were taken and what became of them, oldest first.
    """

    def __init__(
        self,
        root: Path,
        instance: str,
        obey: Callable[[Action], str | None],
        ttl_s_max: float,
        log: Logbook,
    ) -> None:
        self.answered: list[Answered] = []
        self._root = root
        self._instance = instance
        self._obey = obey
        self._ttl_s_max = ttl_s_max
        self._log = log
        self._used: dict[str, int] = {}

    async def keep(self) -> None:
        """Look for requests every `LOOK_S` seconds; runs for ever."""
        while True:
            self.look()
            await trio.sleep(LOOK_S)

    def look(self) -> None:
        """Take what waits, in the order of writing."""
        for path in list_controls(self._root):
            try:
                control = take_control(path)
            except ControlFileError as error:
                self._log.warning("control refused", reason=str(error))
                continue
            if control is not None:
                self._judge(control)

    def _judge(self, control: Control) -> None:
        now = now_us()
        self._used = {nonce: end for nonce, end in self._used.items() if end > now}
        reason = refuse(control, self._instance, now, self._used, self._ttl_s_max)
        if reason is None:
            self._used[control.nonce] = control.asked_us + control.ttl_s * 1_000_000
            self._log.info("control", action=control.action.value, nonce=control.nonce)
            reason = self._obey(control.action)
        if reason is not None:
            self._log.warning(
                "control refused", action=control.action.value, nonce=control.nonce, reason=reason
            )
        answer = Answered(
            nonce=control.nonce, action=control.action.value, refused=reason, t_us=now
        )
        self.answered = [*self.answered, answer][-REMEMBERED:]
