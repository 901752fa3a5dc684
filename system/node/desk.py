"""Where a leader serves requests: writes, parked pops, reads, timers, claims to take back."""

from __future__ import annotations

from functools import partial
from typing import Final

import msgspec
import trio

from ..broker.commands import Command, Pop, Push
from ..broker.ephemeral_options import RemoveRing, RingRemoved
from ..broker.machine import Machine
from ..broker.replies import PopReply, Reply
from ..broker.ring_actions import DeleteRing
from ..bugs import NO_BUGS, Bugs
from ..http import render_ephemeral
from ..http.patience import Patience
from ..http.routes import (
    Answer,
    PopRequest,
    ReadRequest,
    ReportRequest,
    RingRequest,
    Write,
    render,
)
from .activity import Activity
from .admission import Admission, grows, overloaded_answer
from .asker import Asker
from .barrier import ReadBarrier
from .bell import Bell
from .claiming import SMALL_COMMAND_BYTES, Claiming
from .clock import NodeClock
from .counters import Counters
from .ephemeral import EphemeralDesk
from .leadership import Leadership
from .overview import Overview, look
from .parking import ParkedPop, ParkingLot, Verdict, lane_of
from .proposals import Proposals, Waiter
from .receipts import read_receipt, receipt
from .reports import Reports
from .standing import Standing, storage_full_answer

POP_MARGIN_S: Final = 0.05
POP_TRIES_MAX: Final = 3
"""How often a pop enters the log in a row, although others were faster, before it parks."""

POP_GRACE_S: Final = 1.0
"""How long past its own end a pop whose claim is in the log already waits for the outcome."""

PATIENT_S: Final = 0.9
"""Writes with less time than that get a timer of their own."""

_RETAIN_COMMAND_BYTES: Final = 16 * 1024


class Served(msgspec.Struct, frozen=True, gc=False):
    """An answer, and a receipt for the claim in it that must go back if nobody gets to read it.

    `is_empty` tells a pop that found nothing.
    """

    answer: Answer
    lease: str | None = None
    is_empty: bool = False


class NotServed(msgspec.Struct, frozen=True, gc=False):
    """No answer from here; `handed_over` says that the request may be in the log."""

    handed_over: bool


Outcome = Served | NotServed


class LeaderDesk:
    """Serves requests while this node leads; all commands of a leader pass here.

    Attributes:
        lot: Pops that wait for messages.
        patience: Ends writes at their deadlines; its `watch` must run.
    """

    def __init__(
        self,
        node: str,
        machine: Machine,
        leadership: Leadership,
        proposals: Proposals,
        barrier: ReadBarrier,
        clock: NodeClock,
        counters: Counters,
        admission: Admission,
        standing: Standing,
        bugs: Bugs = NO_BUGS,
    ) -> None:
        self._forgets_askers = "orphaned-claims" in bugs
        self.lot = ParkingLot()
        self.ephemeral = EphemeralDesk(machine, leadership)
        self.activity = Activity(machine)
        self._reports = Reports(node, machine, self.activity)
        self._machine = machine
        self._leadership = leadership
        self._proposals = proposals
        self._barrier = barrier
        self._clock = clock
        self._counters = counters
        self._admission = admission
        self._standing = standing
        self._claiming = Claiming(machine, proposals, self.lot, self.stamp_us, self._forgets_askers)
        self.patience = Patience(PATIENT_S)
        self._firing: Waiter | None = None
        self._retaining: Waiter | None = None
        self._is_closing = False

    @property
    def is_firing(self) -> bool:
        """Whether due timers are on their way into the log, and more may be due behind them."""
        return self._firing is not None and not self._firing.is_settled

    async def write(self, request: Write, size: int, deadline: float) -> Outcome:
        """Commit one command and answer with its reply."""
        may_grow = grows(request.command)
        full_node = self._standing.full_node if may_grow else None
        if full_node is not None:
            self._counters.refused_full += 1
            return Served(storage_full_answer(full_node))
        if not self._admission.has_room(*self._proposals.gathered, size, may_grow):
            self._counters.refused_overload += 1
            return Served(overloaded_answer())
        waiter = self._proposals.gather(request.command, size + SMALL_COMMAND_BYTES)
        if isinstance(request.command, Push) and len(self.lot) and not self._is_closing:
            self._claiming.follow(request.command)
        self._proposals.flush()
        if not waiter.is_settled:
            await self._wait(waiter, deadline)
        if waiter.reply is None:
            # What is merely gathered yet may still be proposed after its deadline.
            return NotServed(waiter.was_appended or not waiter.is_settled)
        self._counters.served += 1
        self.activity.note(request.command, waiter.reply, self._machine.now_us)
        return Served(render(request, waiter.reply))

    async def _wait(self, waiter: Waiter, deadline: float) -> None:
        if deadline < trio.current_time() + PATIENT_S:
            with trio.CancelScope(deadline=deadline):
                await waiter.ended.wait()
            return
        waiter.deadline = deadline
        self.patience.add(waiter)
        try:
            await waiter.ended.wait()
        finally:
            self.patience.discard(waiter)

    async def read(self, request: ReadRequest, deadline: float) -> Outcome:
        """Answer from the machine, once that is known to be up to date."""
        if not await self._barrier.passes(deadline):
            return NotServed(handed_over=False)
        self._counters.served += 1
        return Served(render(request, self._machine.read(request.query, self.stamp_us())))

    async def report(self, request: ReportRequest, deadline: float) -> Outcome:
        """Answer a report, once this node is known to lead."""
        if not await self._barrier.passes(deadline):
            return NotServed(handed_over=False)
        answer = await self._reports.answer(request, self.stamp_us())
        self._counters.served += 1
        return Served(answer)

    async def pop(self, request: PopRequest, asker: Asker, deadline: float) -> Outcome:
        """Claim messages, waiting for some if the request says so.

        Args:
            request: What is asked for.
            asker: Who waits.
            deadline: When to answer empty at the latest.
        """
        self._counters.pops += 1
        margin_s = POP_MARGIN_S
        if request.wait_ms:
            margin_s = min(POP_MARGIN_S, request.wait_ms / 2000)
        is_moved = False
        outcome: Outcome | None = None
        try:
            while outcome is None:
                outcome = await self._try_pop(request, asker, deadline, margin_s)
                if outcome is not None:
                    break
                parked = self.lot.park(
                    request.command, is_moved, deadline - margin_s, lambda: asker.impatient
                )
                early: list[Served] = []
                parked.on_claimed = partial(self._answer_now, request, asker, parked, early)
                self._counters.parked += not is_moved
                try:
                    await self._hold(asker, parked.moved, deadline)
                finally:
                    self.lot.leave(parked)
                if parked.verdict is Verdict.SENT_AWAY:
                    return NotServed(handed_over=False)
                is_moved = parked.verdict is not Verdict.WAITING
                if not is_moved:
                    outcome = self._empty(request)
                elif early:
                    outcome = early[0]
                elif parked.waiter is not None:
                    outcome = await self._conclude(request, parked.waiter, deadline)
        finally:
            # What one pop has left is for the next.
            if len(self.lot):
                self._claiming.serve_lane(lane_of(request.command))
        return outcome

    def _answer_now(
        self, request: PopRequest, asker: Asker, parked: ParkedPop, early: list[Served]
    ) -> None:
        """Serve a parked pop where its claim is applied: its task has several others before it."""
        reply = parked.waiter.reply if parked.waiter is not None else None
        # Who waits no longer is about to conclude it, or to take it back.
        if isinstance(reply, PopReply) and not reply.is_empty and parked.moved.is_awaited:
            early.append(self._served(request, reply))
            asker.answer_now(early[0].answer)

    async def _hold(self, asker: Asker, moved: Bell, deadline: float) -> None:
        if self._forgets_askers:
            with trio.move_on_at(deadline):
                await moved.wait()
        else:
            await asker.hold(moved, deadline)

    async def _try_pop(
        self, request: PopRequest, asker: Asker, deadline: float, margin_s: float
    ) -> Outcome | None:
        """One try; None when there is nothing now and the pop may wait."""
        if self._is_closing or not self._leadership.is_serving:
            return NotServed(handed_over=False)
        if (
            asker.impatient and not self._forgets_askers
        ) or trio.current_time() > deadline - margin_s:
            return self._empty(request)
        for _ in range(POP_TRIES_MAX):
            if not self._claiming.may_claim(request.command):
                break
            waiter = self._claiming.claim(request.command)
            outcome = await self._conclude(request, waiter, deadline)
            if outcome is not None:
                return outcome
        if request.wait_ms:
            return None
        if request.command.queue:
            self.activity.tally(request.command.queue, self._machine.now_us).pop_empty += 1
        return self._empty(request)

    async def _conclude(
        self, request: PopRequest, waiter: Waiter, deadline: float
    ) -> Outcome | None:
        """Wait for a claim's outcome; None when it has found nothing."""
        command = request.command
        if not waiter.is_settled:
            await self._wait(waiter, deadline + POP_GRACE_S)
        reply = waiter.reply
        if reply is None:
            if waiter.is_settled:
                return NotServed(waiter.was_appended)
            waiter.abandon(partial(self._take_back_late, command))
            return self._empty(request)
        assert isinstance(reply, PopReply), f"a pop got {type(reply).__name__}"
        return None if reply.is_empty else self._served(request, reply)

    def _served(self, request: PopRequest, reply: PopReply) -> Served:
        command = request.command
        self._counters.served += 1
        self.activity.note(command, reply, self._machine.now_us)
        lease = receipt(reply.lease_id, command) if reply.lease_id else None
        return Served(render(request, reply), lease)

    async def act(self, request: RingRequest, asker: Asker, deadline: float) -> Outcome:
        """Serve ephemeral queues from this node's memory."""
        if self._is_closing or not self._leadership.is_serving:
            return NotServed(handed_over=False)
        if request.wait_ms:
            answer = await self.ephemeral.pop(request, asker, deadline, self.stamp_us)
            if answer is None:
                return NotServed(handed_over=False)
        elif isinstance(request.action, DeleteRing):
            return await self._delete_ring(request.action, deadline)
        else:
            answer = self.ephemeral.act(request, self.stamp_us())
        self._counters.served += 1
        return Served(answer)

    async def _delete_ring(self, action: DeleteRing, deadline: float) -> Outcome:
        existed = self.ephemeral.rings().remove(action.queue)
        command = RemoveRing(action.request_id, action.queue)
        waiter = self._proposals.submit(command, SMALL_COMMAND_BYTES)
        if not waiter.is_settled:
            await self._wait(waiter, deadline)
        if waiter.reply is None:
            return NotServed(waiter.was_appended or not waiter.is_settled)
        assert isinstance(waiter.reply, RingRemoved), f"got {type(waiter.reply).__name__}"
        self._counters.served += 1
        was_declared = waiter.reply.was_declared
        return Served(render_ephemeral.deleted(action.queue, existed, was_declared))

    def take_back(self, lease: str) -> bool:
        """Undo a claim that nobody received, by its receipt; False if this node does not lead."""
        if not self._leadership.is_serving:
            return False
        if self._forgets_askers:
            return True
        self._counters.take_backs += 1
        self._proposals.submit(read_receipt(lease), SMALL_COMMAND_BYTES)
        return True

    def overview(self) -> Overview:
        """This node's copy of the queues, whoever leads."""
        return look(self._machine, self.stamp_us())

    def close(self) -> None:
        """Serve no pop any longer; those that wait are to be asked again at the next leader."""
        self._is_closing = True
        self.send_all_away()

    def send_all_away(self) -> None:
        """Whoever waits here is to ask another node."""
        self.lot.send_all_away()
        self.ephemeral.close()
        self.activity.clear()

    def stamp_us(self) -> int:
        """The time at which the machine is asked, never behind what it has seen."""
        return max(self._clock.broker_us(), self._machine.now_us + 1)

    def wake(self, queues: set[str]) -> None:
        """Queues have changed: let parked pops go on that can now be served."""
        if len(self.lot):
            self._claiming.serve_queues(queues)

    def attend_time(self) -> None:
        """Act on what time alone has made ready: due timers, expired leases, ended holds."""
        self.fire_due_timers()
        if len(self.lot):
            self.wake(set(self._machine.due_queues(self.stamp_us())))

    def fire_due_timers(self) -> None:
        """Propose that due timers fire, unless that is on its way already."""
        if self.is_firing:
            return
        command: Command | None = self._machine.due_timers(self.stamp_us())
        if command is not None:
            self._counters.timers_fired += 1
            self._firing = self._proposals.submit(command, SMALL_COMMAND_BYTES)

    def attend_retention(self) -> None:
        """Propose to let go of what is too old, unless that is on its way already."""
        if self._retaining is not None and not self._retaining.is_settled:
            return
        command = self._machine.due_retention(self.stamp_us())
        if command is not None:
            waiter = self._retaining = self._proposals.submit(command, _RETAIN_COMMAND_BYTES)
            waiter.abandon(lambda reply: self.activity.note(command, reply, self._machine.now_us))

    def _take_back_late(self, command: Pop, reply: Reply) -> None:
        if len(self.lot):
            self._claiming.serve_lane(lane_of(command))
        if isinstance(reply, PopReply) and reply.lease_id:
            self.take_back(receipt(reply.lease_id, command))

    def _empty(self, request: PopRequest) -> Served:
        self._counters.served += 1
        return Served(render(request, self._machine.nothing(request.command)), is_empty=True)
