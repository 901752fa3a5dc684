"""What every act is: a fault that finds its target, bites, holds, heals and is seen to recover.

An act is used once: `choose`, `bite`, `hold`, `heal`, `recover`, in this order. `choose` claims
what it hits, so that two faults never share a target; whoever runs the act gives the claims back.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final, Protocol

import trio

from ..histories.ops import Json
from .events import Events
from .fault import Fault
from .ledger import Ledger
from .process import ProcessGoneError, send_to, wait_gone
from .settings import NemesisSettings
from .world import Target, World

POLL_S: Final = 0.02

Evidence = dict[str, Json]


class NoBiteError(Exception):
    """The fault did not take effect; the message says why."""


@dataclass(slots=True)
class Stage:
    """What the acts of one plan share.

    Attributes:
        world: The system.
        settings: The waits.
        claims: What faults hold now.
        queue: Faults that wait for nodes, by id; one that wants all of them is not overtaken.
        worker: Pid of the only worker that may be hit; None for any.
        events: What has happened in the run.
        ledger: Where acts write what they are about to make; see `owe`.
    """

    world: World
    settings: NemesisSettings
    claims: set[str]
    queue: list[Fault] = field(default_factory=list)
    worker: int | None = None
    events: Events = field(default_factory=Events)
    ledger: Ledger | None = None

    def owe(self, fault: Fault, undo: dict[str, Json]) -> None:
        """Write down, before it exists, what must be undone should this process die.

        Args:
            fault: The fault that makes it.
            undo: By kind of thing (a key of `undo.UNDO`) what its function takes: one object, or
                a list of them.
        """
        assert self.ledger is not None, f"fault {fault.id} owes {undo}, and there is no ledger"
        self.ledger.fault_owes(fault.id, undo)

    def will_touch(self, fault: Fault, targets: Sequence[Target]) -> None:
        """Write down processes that `choose` itself is about to stop for a moment."""
        assert self.ledger is not None, f"fault {fault.id} has no ledger"
        self.ledger.fault_opened(fault.id, fault.kind, targets)

    def has_left(self, fault: Fault) -> None:
        """Write down that `choose` left all of these as they were."""
        assert self.ledger is not None, f"fault {fault.id} has no ledger"
        self.ledger.fault_healed(fault.id)


class Act(Protocol):
    """One fault in the making."""

    async def choose(self) -> tuple[Target, ...]:
        """Find and claim what to hit; `NoBiteError` if there is nothing in time."""

    @property
    def claimed(self) -> frozenset[str]:
        """What `choose` took."""

    @property
    def pid(self) -> int | None:
        """The one process that is hit, if it is one."""

    @property
    def hit(self) -> str:
        """What is hit, in a word or two."""

    def context(self) -> Evidence:
        """Why this target: what was seen of it when it was chosen."""

    async def bite(self) -> Evidence:
        """Act, and return the proof that it took effect; `NoBiteError` if there is none."""

    async def hold(self) -> None:
        """Let it last."""

    async def heal(self) -> Evidence:
        """Undo it. Called whatever happened since `choose`, and shielded from cancellation."""

    async def recover(self) -> Evidence | None:
        """Wait until the target is healthy; None if it takes too long."""


MakeAct = Callable[[Fault, Stage], Act]
"""Makes the act of a fault."""


def send_or_no_bite(target: Target, number: signal.Signals) -> None:
    """Signal a living process; `NoBiteError` if it has ended."""
    try:
        send_to(target, number)
    except ProcessGoneError:
        raise already_gone(target) from None


def already_gone(target: Target) -> NoBiteError:
    """What to say of a target that ended before the fault could end it."""
    return NoBiteError(f"{target.name} (pid {target.pid}) had already ended")


async def exit_of(stage: Stage, target: Target) -> int:
    """The raw wait status of a process that was told to end; `NoBiteError` if it lives on."""
    wait_s = stage.settings.exit_wait_s
    with trio.move_on_after(wait_s):
        return await stage.world.wait_exit(target)
    raise NoBiteError(f"{target.name} (pid {target.pid}) still lived {wait_s:g} s after SIGKILL")


async def see_gone(stage: Stage, target: Target) -> bool:
    """Make sure that a process which was told to end has ended; False if even SIGKILL fails."""
    if await wait_gone(target, stage.settings.exit_wait_s):
        return True
    with suppress(ProcessGoneError):
        send_to(target, signal.SIGKILL)
    return await wait_gone(target, stage.settings.exit_wait_s)


def check_killed(target: Target, status: int) -> None:
    """Refuse a wait status that is not SIGKILL's: the process ended by itself."""
    if not os.WIFSIGNALED(status) or os.WTERMSIG(status) != signal.SIGKILL:
        raise NoBiteError(f"{target.name} (pid {target.pid}) ended by itself: {describe(status)}")


async def terminate(stage: Stage, target: Target, grace_s: float) -> Evidence:
    """SIGTERM and the graceful exit; after `grace_s` SIGKILL, which the evidence says."""
    send_or_no_bite(target, signal.SIGTERM)
    with trio.move_on_after(grace_s):
        status = await stage.world.wait_exit(target)
        return {"signal": "SIGTERM", "status": status, "ended": describe(status), "forced": False}
    is_forced = True
    try:
        send_to(target, signal.SIGKILL)
    except ProcessGoneError:
        is_forced = False  # It has just ended, and was not seen to yet.
    status = await exit_of(stage, target)
    return {"signal": "SIGTERM", "status": status, "ended": describe(status), "forced": is_forced}


def describe(status: int) -> str:
    """A raw wait status in words."""
    if os.WIFSIGNALED(status):
        return f"signal {signal.Signals(os.WTERMSIG(status)).name}"
    return f"exit {os.WEXITSTATUS(status)}"
