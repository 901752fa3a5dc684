"""Changes of the membership on their way through the log."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, NamedTuple

import trio

from ..raft.events import (
    Appended,
    Change,
    ChangeMembers,
    ChangeRefused,
    MembersKept,
    Refused,
)
from ..raft.messages import Entry

Ending = Literal["done", "refused", "not-leading", "lost", "unknown"]
"""`lost` is the leadership, `unknown` when the time was up; both may still be done."""


class Verdict(NamedTuple):
    """How a change ended; code and text of a refusal."""

    ending: Ending
    code: str = ""
    text: str = ""


class _Waiter:
    __slots__ = ("settled", "verdict")

    def __init__(self) -> None:
        self.settled = trio.Event()
        self.verdict = Verdict("unknown")

    def settle(self, verdict: Verdict) -> None:
        self.verdict = verdict
        self.settled.set()


class MemberProposals:
    """Proposals with negative numbers, so that they are told from those of commands."""

    def __init__(self, step: Callable[[ChangeMembers], None]) -> None:
        self._step = step
        self._last = 0
        self._proposed: dict[int, _Waiter] = {}
        self._appended: list[tuple[int, int, _Waiter]] = []

    async def propose(self, change: Change, deadline: float) -> Verdict:
        """Ask for a change and wait until it is applied, refused, or the time is up."""
        self._last -= 1
        number, waiter = self._last, _Waiter()
        self._proposed[number] = waiter
        self._step(ChangeMembers(number, change))
        with trio.move_on_at(deadline):
            await waiter.settled.wait()
        self._proposed.pop(number, None)
        self._appended = [waiting for waiting in self._appended if waiting[2] is not waiter]
        return waiter.verdict

    def appended(self, effect: Appended) -> None:
        """A change has its place in the log, perhaps that of an earlier, equal one."""
        waiter = self._proposed.pop(effect.proposal)
        self._appended.append((effect.first_index, effect.term, waiter))

    def refused(self, effect: Refused) -> None:
        """This node does not lead."""
        self._proposed.pop(effect.proposal).settle(Verdict("not-leading"))

    def kept(self, effect: MembersKept) -> None:
        """It was so already."""
        self._proposed.pop(effect.proposal).settle(Verdict("done"))

    def change_refused(self, effect: ChangeRefused) -> None:
        """It cannot be."""
        verdict = Verdict("refused", effect.code, effect.text)
        self._proposed.pop(effect.proposal).settle(verdict)

    def applied(self, entry: Entry) -> None:
        """An entry was applied; it is a waiting change if its term is the one it was given."""
        waiting, self._appended = self._appended, []
        for index, term, waiter in waiting:
            if index > entry.index:
                self._appended.append((index, term, waiter))
            elif index == entry.index and term == entry.term:
                waiter.settle(Verdict("done"))
            else:
                waiter.settle(Verdict("lost"))

    def step_down(self) -> None:
        """What waits here may still be committed, by another leader."""
        waiting, self._appended = self._appended, []
        for _, _, waiter in waiting:
            waiter.settle(Verdict("lost"))
