"""Commands on their way into the log: gathered into entries, matched with what gets applied.

A command that arrives while nothing is on its way is proposed at once. What arrives while the disk
is busy is gathered and goes into one entry. A command's outcome is known exactly when an entry
of the same term is applied at the index where it was appended; the index alone says nothing.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from typing import Final

import trio

from ..broker.commands import Command
from ..broker.planner import Planner
from ..broker.replies import Reply
from ..bugs import Bugs
from ..raft.events import Appended, Propose, Refused
from ..raft.messages import Entry
from .clock import NodeClock
from .counters import Counters
from .misanswer import misanswer

_REFUSES_AFTER_US: Final = 1_000_000

ENTRIES_IN_FLIGHT_MAX: Final = 4
COMMANDS_PER_ENTRY_MAX: Final = 4096
ENTRY_BYTES_MAX: Final = 4 * 1024 * 1024


class Waiter:
    """One command that waits for its reply.

    Attributes:
        command: The command.
        size: About how many bytes it adds to an entry.
        ended: Set when there is nothing more to wait for.
        is_settled: Whether the outcome is known, or known to stay unknown.
        deadline: Until when somebody waits.
        reply: The machine's reply; None when there is none.
        on_end: Called once, when the outcome is known or known to stay unknown; must not await.
        was_appended: Whether the command has been in the log, so that it may have been, or may
            yet be, applied although there is no reply.
    """

    __slots__ = (
        "command",
        "deadline",
        "ended",
        "is_settled",
        "on_end",
        "on_late_reply",
        "reply",
        "size",
        "was_appended",
    )

    def __init__(
        self, command: Command, size: int, on_end: Callable[[], None] | None = None
    ) -> None:
        self.command = command
        self.on_end = on_end
        self.size = size
        self.ended = trio.Event()
        self.is_settled = False
        self.deadline = math.inf
        self.reply: Reply | None = None
        self.was_appended = False
        self.on_late_reply: Callable[[Reply], None] | None = None

    def settle(self, reply: Reply | None) -> None:
        """Give the reply, or None when the outcome stays unknown."""
        if self.is_settled:
            return
        self.reply = reply
        self.is_settled = True
        self.ended.set()
        if self.on_end is not None:
            self.on_end()
        if reply is not None and self.on_late_reply is not None:
            self.on_late_reply(reply)

    def expire(self) -> None:
        """Let whoever waits go on without an outcome."""
        self.ended.set()

    def abandon(self, on_late_reply: Callable[[Reply], None]) -> None:
        """Nobody waits any longer; hand a reply that still comes to `on_late_reply`."""
        self.on_late_reply = on_late_reply


class _Flight:
    """An entry in the log, and who waits for it."""

    __slots__ = ("term", "waiters")

    def __init__(self, term: int, waiters: list[Waiter]) -> None:
        self.term = term
        self.waiters = waiters


class Proposals:
    """The leader's commands between arrival and reply.

    Attributes:
        is_held: While true, commands are gathered and none is proposed.
    """

    def __init__(
        self,
        step: Callable[[Propose], None],
        is_disk_busy: Callable[[], bool],
        last_index: Callable[[], int],
        clock: NodeClock,
        counters: Counters,
        bugs: Bugs,
        quorum_silence_us: Callable[[], int] = lambda: 0,
    ) -> None:
        self.is_held = False
        self._quorum_silence_us = quorum_silence_us
        self._is_wedged = False
        self._step = step
        self._is_disk_busy = is_disk_busy
        self._last_index = last_index
        self._clock = clock
        self._counters = counters
        self._bugs = bugs
        self._planner: Planner | None = None
        self._gathered: deque[Waiter] = deque()
        self._proposed: dict[int, list[Waiter]] = {}
        self._flights: dict[int, _Flight] = {}
        self._last_proposal = 0
        self._guessed_index = 0
        self._gathered_bytes = 0

    @property
    def gathered(self) -> tuple[int, int]:
        """Commands that wait to be proposed, also those nobody asks for any longer; their bytes."""
        return len(self._gathered), self._gathered_bytes

    @property
    def in_flight(self) -> int:
        """Entries proposed and not applied yet."""
        return len(self._proposed) + len(self._flights)

    def awaits(self, index: int) -> bool:
        """Whether somebody waits for the outcome of the entry at an index."""
        return index in self._flights

    def lead(self, planner: Planner) -> None:
        """Begin to propose, with a planner that knows the last stamp."""
        self._planner = planner
        self._is_wedged = False

    def step_down(self) -> None:
        """Leadership is lost: nothing that waits here can be known any longer."""
        self._planner = None
        gathered, self._gathered = self._gathered, deque()
        self._gathered_bytes = 0
        for waiter in gathered:
            waiter.settle(None)
        if "answer-by-log-index" in self._bugs:
            return
        flights, self._flights = self._flights, {}
        for flight in flights.values():
            for waiter in flight.waiters:
                waiter.settle(None)

    def submit(self, command: Command, size: int) -> Waiter:
        """Take a command; it is proposed in this very call when nothing is on its way."""
        waiter = self.gather(command, size)
        self.flush()
        return waiter

    def gather(
        self, command: Command, size: int, on_end: Callable[[], None] | None = None
    ) -> Waiter:
        """Take a command that is proposed by the next `flush`, with all that gathers before it."""
        waiter = Waiter(command, size, on_end)
        if self._planner is None:
            waiter.settle(None)
        else:
            self._gathered.append(waiter)
            self._gathered_bytes += size
        return waiter

    def flush(self) -> None:
        """Propose what has gathered, if the disk is free and there is room for an entry."""
        while self._may_propose():
            assert self._planner is not None, "commands gathered without leadership"
            waiters = self._take_entry()
            now_us = self._clock.broker_us()
            data = self._planner.plan(now_us, [waiter.command for waiter in waiters])
            self._last_proposal += 1
            self._proposed[self._last_proposal] = waiters
            self._counters.proposals += 1
            self._counters.commands += len(waiters)
            self._propose(Propose(self._last_proposal, (data,)))

    def _propose(self, event: Propose) -> None:
        if "proposals-overtake" in self._bugs:
            trio.lowlevel.spawn_system_task(self._propose_beside, event)
        else:
            self._step(event)

    async def _propose_beside(self, event: Propose) -> None:
        """Tasks that are ready at the same time run in any order."""
        await trio.lowlevel.checkpoint()
        self._step(event)

    def appended(self, effect: Appended) -> None:
        """A proposal has its place in the log."""
        waiters = self._proposed.pop(effect.proposal)
        for waiter in waiters:
            waiter.was_appended = True
        replaced = self._flights.pop(effect.first_index, None)
        self._flights[effect.first_index] = _Flight(effect.term, waiters)
        if replaced is not None:
            assert "answer-by-log-index" in self._bugs, (
                f"log index {effect.first_index} appended twice in one leadership"
            )
            for waiter in replaced.waiters:
                waiter.settle(None)

    def refused(self, effect: Refused) -> None:
        """A proposal was not appended, for certain."""
        waiters = self._proposed.pop(effect.proposal)
        if "answer-by-log-index" in self._bugs:
            # As if the next free slot were certain to be this proposal's.
            self._guessed_index = max(self._guessed_index, self._last_index()) + 1
            self._flights[self._guessed_index] = _Flight(0, waiters)
            return
        for waiter in waiters:
            waiter.settle(None)

    def applied(self, entry: Entry, replies: list[Reply]) -> None:
        """An entry was applied; answer those whose entry it is."""
        flight = self._flights.pop(entry.index, None)
        if flight is None:
            return
        if flight.term == entry.term:
            assert len(replies) == len(flight.waiters), (
                f"entry {entry.index}: {len(replies)} replies for {len(flight.waiters)} commands"
            )
            for waiter, reply in zip(flight.waiters, replies, strict=True):
                waiter.settle(reply)
        else:
            for waiter in flight.waiters:
                forged = None
                if "answer-by-log-index" in self._bugs:
                    forged = misanswer(waiter.command, entry.index)
                waiter.settle(forged)

    def _may_propose(self) -> bool:
        if "wedged-by-a-refusal" in self._bugs and self._quorum_silence_us() > _REFUSES_AFTER_US:
            # As if a refused write meant that the leadership was lost: the next one ends the wait.
            self._is_wedged = True
        return (
            bool(self._gathered)
            and not self.is_held
            and not self._is_wedged
            and self.in_flight < ENTRIES_IN_FLIGHT_MAX
            and not (self.in_flight and self._is_disk_busy())
        )

    def _take_entry(self) -> list[Waiter]:
        waiters: list[Waiter] = []
        size = 0
        while self._gathered and len(waiters) < COMMANDS_PER_ENTRY_MAX:
            if waiters and size + self._gathered[0].size > ENTRY_BYTES_MAX:
                break
            waiter = self._gathered.popleft()
            size += waiter.size
            waiters.append(waiter)
        self._gathered_bytes -= size
        return waiters
