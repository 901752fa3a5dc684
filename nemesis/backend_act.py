"""Faults on the server that an audited system uses: killed, restarted, paused."""

from __future__ import annotations

import signal
import time
from typing import Final

import trio

from .acts import POLL_S, Evidence, NoBiteError, Stage, see_gone, send_or_no_bite
from .backend import SIGNALS
from .fault import Fault
from .process import ProcessGoneError, is_alive, send_to, wait_gone, wait_stopped
from .selectors import BACKEND
from .world import Backend, Target

_GRACE_S: Final = 10.0


class HitBackend:
    """kill-backend, restart-backend, pause-backend: end or stop it, then start or continue it."""

    def __init__(self, fault: Fault, stage: Stage) -> None:
        self.fault = fault
        self.stage = stage
        self.claimed: frozenset[str] = frozenset()
        self.hit = BACKEND
        self.target: Target | None = None
        self.told_to_end = False

    @property
    def pid(self) -> int | None:
        """See `Act`."""
        return self.target.pid if self.target else None

    @property
    def _backend(self) -> Backend:
        backend = self.stage.world.backend()
        assert backend is not None, f"fault {self.fault.id} in a run without a backend"
        return backend

    def context(self) -> Evidence:
        """See `Act`."""
        return {"name": self.target.name if self.target else None}

    async def choose(self) -> tuple[Target, ...]:
        """See `Act`."""
        stage, wait_s = self.stage, self.stage.settings.leader_wait_s
        with trio.move_on_after(wait_s):
            while True:
                target = self._backend.target
                if target is not None and BACKEND not in stage.claims:
                    self.claimed = frozenset({BACKEND})
                    stage.claims |= self.claimed
                    self.target = target
                    return (target,)
                await trio.sleep(POLL_S)
        raise NoBiteError(f"no backend that another fault does not hold for {wait_s:g} s")

    async def bite(self) -> Evidence:
        """See `Act`."""
        assert self.target is not None, "bite before choose"
        number, begun_s = SIGNALS[self.fault.kind], time.monotonic()
        wait_s = self.stage.settings.exit_wait_s
        self.told_to_end = number != signal.SIGSTOP
        send_or_no_bite(self.target, number)
        if number == signal.SIGSTOP:
            seen, what = await wait_stopped(self.target, True, wait_s), "stopped"
        elif number == signal.SIGTERM:
            seen, what = await wait_gone(self.target, _GRACE_S), "gone"
        else:
            seen, what = await wait_gone(self.target, wait_s), "gone"
        if not seen:
            raise NoBiteError(f"{self.target.name} was not seen {what}")
        seen_ms = round((time.monotonic() - begun_s) * 1000, 3)
        return {"signal": number.name, f"{what}_ms": seen_ms}

    async def hold(self) -> None:
        """See `Act`."""
        await trio.sleep(self.fault.duration_s)

    async def heal(self) -> Evidence:
        """See `Act`."""
        assert self.target is not None, "heal before choose"
        if self.told_to_end:
            await see_gone(self.stage, self.target)
        if is_alive(self.target):
            try:
                send_to(self.target, signal.SIGCONT)
            except ProcessGoneError:
                return {"gone": True}
            wait_s = self.stage.settings.exit_wait_s
            return {"runs": await wait_stopped(self.target, False, wait_s)}
        self._backend.start()
        return {"started": True}

    async def recover(self) -> Evidence | None:
        """See `Act`."""
        begun_s = time.monotonic()
        if not await self._backend.wait_ready(self.stage.settings.recover_wait_s):
            return None
        return {"ready_after_s": round(time.monotonic() - begun_s, 3)}
