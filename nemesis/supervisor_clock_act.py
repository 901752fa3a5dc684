"""The time of day of a supervisor, its workers and all that they start, moved by the shim."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Final

import trio

from .acts import POLL_S, Evidence, NoBiteError, Stage
from .clock_records import ClockRecords
from .clock_shapes import Bump, Clocks, Drift, Strobe, within_us
from .clockshim.shim import ShimClock, is_loaded
from .fault import Fault
from .process import is_alive
from .supervisor_acts import living
from .world import SupervisorClock, Target

_CLAIM: Final = "time of day of the supervisor"
_HIT: Final = "supervisor"
_RECORDS_WAIT_S: Final = 1.0
"""Idle workers write nothing; busy ones several records a second."""


class SupervisorClocks(Clocks):
    """The time of day of all processes of one supervisor.

    It holds no process: these may be killed, and come again with the clock as it is by then.
    """

    def __init__(self, fault: Fault, stage: Stage) -> None:
        self.fault = fault
        self.stage = stage
        self.claimed: frozenset[str] = frozenset()
        self.hit = _HIT
        self.master: Target | None = None
        self.bitten_s = 0.0
        self.first_step = 0
        self.from_ns = 0
        self.shim: ShimClock | None = None
        self.records: ClockRecords | None = None
        self.errors_us: list[int] = []

    @property
    def pid(self) -> int | None:
        """See `Act`."""
        return self.master.pid if self.master else None

    def context(self) -> Evidence:
        """See `Act`."""
        views = self.stage.world.workers()
        return {"workers": len(views), "running": [view.job for view in views if view.job]}

    async def choose(self) -> tuple[Target, ...]:
        """See `Act`."""
        stage = self.stage
        wait_s = stage.settings.leader_wait_s + 2 * stage.settings.recover_wait_s
        with trio.move_on_after(wait_s):
            while True:
                master = stage.world.supervisor_process()
                if master is not None and _CLAIM not in stage.claims:
                    self.claimed = frozenset({_CLAIM})
                    stage.claims |= self.claimed
                    self.master = master
                    return (master,)
                await trio.sleep(POLL_S)
        raise NoBiteError(f"no supervisor whose clock no other fault holds for {wait_s:g} s")

    @property
    def clock(self) -> SupervisorClock:
        """The clock of the supervisor that was chosen."""
        clock = self.stage.world.supervisor_clock()
        assert clock is not None, f"the supervisor was started without what {self.fault.kind} needs"
        return clock

    def set_all(self, error_us: int) -> None:
        """Make the clocks wrong by so much."""
        if self.shim is None:
            path = self.clock.path
            self.stage.owe(self.fault, {"time-of-day": {"path": str(path)}})
            self.shim = ShimClock(path)
        self.shim.move(error_us * 1000)

    async def demand(self, step: int) -> Evidence:
        """Step the clocks; `NoBiteError` if one does not show it."""
        if self.records is None:
            self.records = ClockRecords(self.clock.attempts)
            self.first_step = step
        self.set_all(step)
        self.from_ns = time.monotonic_ns()
        seen_us = await self._see(step)
        if seen_us is None:
            text = "a program that was started in its environment did not see its clock moved by"
            raise NoBiteError(f"{text} {step / 1e6:g} s")
        processes = await self._all_loaded(self.clock.path)
        shown = await self._shown(step)
        self.bitten_s = time.monotonic()
        return {
            "step_s": step / 1e6,
            "seen_s": seen_us / 1e6,
            "processes": processes,
            "records": shown,
        }

    async def _shown(self, step: int) -> int:
        """See how many records of the workers show the step; not one may be right, of some."""
        errors_us: list[int] = []
        with trio.move_on_after(_RECORDS_WAIT_S):
            while not errors_us:
                await trio.sleep(POLL_S)
                errors_us = self._new_errors_us()
        shown = sum(abs(error_us - step) < within_us(step) for error_us in errors_us)
        if errors_us and not shown:
            raise NoBiteError(
                f"workers wrote {len(errors_us)} records, and none with a clock moved by "
                f"{step / 1e6:g} s; the first is off by {errors_us[0] / 1e6:g} s"
            )
        return shown

    def _new_errors_us(self) -> list[int]:
        """How wrong the workers' clocks were in records since the last step."""
        assert self.records is not None, "records before the first step"
        pids = {view.pid for view in self.stage.world.workers()}
        found = self.records.errors_us(pids, self.from_ns)
        self.errors_us += found
        return found

    async def _see(self, step: int) -> int | None:
        """What a program that is started now sees; None if it is not the step."""
        with trio.move_on_after(self.stage.settings.exit_wait_s):
            while True:
                seen_us = await self.clock.ask_error_us()
                if seen_us is not None and abs(seen_us - step) < within_us(step):
                    return seen_us
                await trio.sleep(POLL_S)
        return None

    def _processes(self) -> list[Target]:
        """The processes of the supervisor that live now."""
        world = self.stage.world
        found = [world.supervisor_process(), world.fork_server(), *living(world.workers())]
        return [target for target in found if target is not None and is_alive(target)]

    async def _all_loaded(self, path: Path) -> int:
        """See how many processes there are, and that each has the shim; one may just start."""
        lacking: list[Target] = []
        with trio.move_on_after(self.stage.settings.exit_wait_s):
            while True:
                processes = self._processes()
                lacking = [each for each in processes if not is_loaded(each.pid, path)]
                lacking = [each for each in lacking if is_alive(each)]
                if processes and not lacking:
                    return len(processes)
                await trio.sleep(POLL_S)
        names = ", ".join(f"{each.name} (pid {each.pid})" for each in lacking)
        raise NoBiteError(f"no clock shim in {names or 'the supervisor, which does not live'}")

    async def hold(self) -> None:
        """See `Act`."""
        await trio.sleep(self.fault.duration_s)

    async def heal(self) -> Evidence:
        """See `Act`."""
        if self.shim is None:
            return {}
        told = self._told()
        self.shim.move(0)
        self.from_ns = time.monotonic_ns()
        self.shim.close()
        self.shim = None
        return told

    def _told(self) -> Evidence:
        """What the workers' records showed in all."""
        self._new_errors_us()
        errors_us, self.errors_us = self.errors_us, []
        if not errors_us:
            return {"records": 0}
        half = abs(self.first_step) / 2
        return {
            "records": len(errors_us),
            "moved": sum(abs(error_us) >= half for error_us in errors_us),
            "error_s": [min(errors_us) / 1e6, max(errors_us) / 1e6],
        }

    async def recover(self) -> Evidence | None:
        """See `Act`."""
        begun_s = time.monotonic()
        with trio.move_on_after(self.stage.settings.recover_wait_s):
            seen_us = await self._see(0)
            right = await self._right_records()
            if seen_us is not None:
                return {
                    "right_after_s": round(time.monotonic() - begun_s, 3),
                    "seen_s": seen_us / 1e6,
                    "records": right,
                }
        return None

    async def _right_records(self) -> int:
        """Wait until the workers write the right time again, if they write at all."""
        if self.records is None:
            return 0
        begun_s = time.monotonic()
        while True:
            right = sum(abs(error_us) < within_us(0) for error_us in self._new_errors_us())
            if right or (not self.errors_us and time.monotonic() - begun_s > _RECORDS_WAIT_S):
                return right
            await trio.sleep(POLL_S)


class BumpSupervisorClock(Bump, SupervisorClocks):
    """bump-supervisor-clock: see `Bump`."""


class DriftSupervisorClock(Drift, SupervisorClocks):
    """drift-supervisor-clock: see `Drift`."""


class StrobeSupervisorClock(Strobe, SupervisorClocks):
    """strobe-supervisor-clock: see `Strobe`."""
