"""Clock shims of a run's supervisors, in runs whose plan has a use for them."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import trio

from ..nemesis.clock_records import ahead_ns
from ..nemesis.clockshim.proof import ONCE, command, prove
from ..nemesis.clockshim.shim import ShimError, preloading, write_shim
from ..nemesis.levels import CLOCK_SHIM
from ..nemesis.registry import NEMESES
from .errors import HarnessError
from .reaper import Identity, Reaper
from .scenario import Scenario
from .store import RunPaths

_ANSWER_BYTES: Final = 64


@dataclass(frozen=True, slots=True)
class ShimmedClock:
    """The time of day of one supervisor and all that it starts.

    Attributes:
        path: The shim that they were started with.
        attempts: Where its workers write their attempt logs.
        reaper: Sees to the programs that are started to ask.
    """

    path: Path
    attempts: Path
    reaper: Reaper

    async def ask_error_us(self) -> int | None:
        """Start a program in the supervisor's environment and have it tell its time of day.

        Returns:
            By how much that is wrong; None if it said nothing.
        """
        process = subprocess.Popen(
            command(ONCE),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, **preloading(self.path, os.environ)},
            start_new_session=True,
        )
        self.reaper.register(process, Identity("witness"))
        assert process.stdout is not None, "started with a pipe"
        async with trio.lowlevel.FdStream(os.dup(process.stdout.fileno())) as stream:
            process.stdout.close()
            said = await stream.receive_some(_ANSWER_BYTES)
        await self.reaper.wait_exit(process.pid)
        return (int(said) - ahead_ns()) // 1000 if said.strip() else None


class Shims:
    """The shims of a run, one a supervisor; none if no fault of its plan needs them."""

    def __init__(self, run: RunPaths, scenario: Scenario, reaper: Reaper) -> None:
        is_used = any(CLOCK_SHIM in NEMESES[fault.kind].needs for fault in scenario.plan)
        self._clocks = {
            name: ShimmedClock(run.clock_shim_of(name), run.attempts, reaper)
            for name in (scenario.supervisor_names if is_used else ())
        }

    def write(self) -> None:
        """Write them into the run folder and see that they work there.

        Raises:
            HarnessError: One does not; the line says why, and what would help.
        """
        for name, clock in self._clocks.items():
            try:
                write_shim(clock.path)
                prove(clock.path)
            except ShimError as error:
                raise HarnessError(
                    f"the clock of {name} cannot be moved: {error}; choose another folder with "
                    "--store DIR, or leave these faults out"
                ) from None

    def variables(self, identity: Identity, name: str) -> dict[str, str]:
        """What is added to the environment of a process: something if it is a supervisor's."""
        clock = self._clocks.get(name) if identity.role == "master" else None
        return {} if clock is None else preloading(clock.path, os.environ)

    def clock(self, supervisor: str) -> ShimmedClock | None:
        """The clock of a supervisor; None if no fault can move it."""
        return self._clocks.get(supervisor)
