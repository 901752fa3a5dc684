"""Every request of this node's clients, from parsed HTTP to an answer, through any leader."""

from __future__ import annotations

import contextlib
import os
import traceback
from collections.abc import Mapping
from functools import partial
from typing import Final, Protocol

import trio

from ..http import framing
from ..http.auth import Guard
from ..http.routes import (
    Answer,
    FetchRequest,
    Local,
    MembersRequest,
    PopRequest,
    ReadRequest,
    ReportRequest,
    RingRequest,
    Write,
    error_answer,
    route,
)
from ..http.server import Delivery
from .admission import Admission, grows, overloaded_answer
from .asked import BadHeaderError, LeaderRequest, asked_by, deadline_ms_of, is_pop, nothing
from .asker import Asker, Client, LocalAsker
from .counters import Counters
from .desk import LeaderDesk, NotServed, Outcome, Served
from .doubt import NOTHING_WAS_APPLIED, is_refused_repeat
from .fetches import Fetches
from .frames import Forward, NodeReport, Reply, ReplyFrame, TryAgain
from .leadership import Leadership
from .links import Ask, ForwardLink
from .logbook import Logbook
from .membership_desk import MembershipDesk
from .standing import Standing

REQUEST_ID_MAX: Final = 200

_RETRY_PAUSE_S: Final = 0.02
_POP_ANSWER_GRACE_S: Final = 1.5
_FORWARDED_HEADERS: Final = ("content-type", "authorization")
_NO_PLACE_NEEDED: Final = contextlib.nullcontext(True)
_STEADY: Final = Asker()
"""Who asks for anything but messages: nothing ends such a request before its deadline."""


class LocalAnswers(Protocol):
    """What a node says about itself."""

    def answer(self, name: str) -> Answer:
        """The answer to `Local(name)`."""
        ...


class Service:
    """Answers requests; see the module.

    Args:
        node: This node.
        desk: Where it serves as leader.
        members: Where it serves what is about the membership, as leader.
        links: Connections to its peers.
        leadership: Who leads.
        fetches: Local reads that may wait.
        about: Answers about this node itself.
        logbook: Hears of internal errors.
        counters: Counts.
        deadline_ms: How long requests are held that name no deadline of their own.
        guard: Says who may ask for what.
        subscription_mode: Where a group begins whose first pop does not say.
        admission: Bounds what waits here.
        standing: Hears how the peers are.
    """

    def __init__(
        self,
        node: str,
        desk: LeaderDesk,
        members: MembershipDesk,
        links: Mapping[str, ForwardLink],
        leadership: Leadership,
        fetches: Fetches,
        about: LocalAnswers,
        logbook: Logbook,
        counters: Counters,
        deadline_ms: int,
        guard: Guard,
        subscription_mode: str,
        admission: Admission,
        standing: Standing,
    ) -> None:
        self._subscription_mode = subscription_mode
        self._guard = guard
        self._node = node
        self._desk = desk
        self._members = members
        self._links = links
        self._leadership = leadership
        self._fetches = fetches
        self._about = about
        self._logbook = logbook
        self._counters = counters
        self._deadline_ms = deadline_ms
        self._admission = admission
        self._standing = standing
        self._id_prefix = f"{node}-{os.urandom(8).hex()}-"
        self._last_id = 0
        self._waiting: set[Asker] = set()
        self._is_stopping = False

    async def handle(self, request: framing.Request, client: Client) -> Delivery:
        """Answer one request of this node's own client."""
        self._counters.requests += 1
        try:
            request_id = self._request_id(request.headers)
            deadline_ms = deadline_ms_of(request.headers, self._deadline_ms)
        except BadHeaderError as error:
            return Delivery(error_answer(400, "bad_request", str(error)))
        routed = self._route(
            request.method, request.target, request.headers, request.body, request_id
        )
        if isinstance(routed, Answer):
            return Delivery(routed)
        if isinstance(routed, Local):
            return Delivery(self._about.answer(routed.name))
        if isinstance(routed, Write | ReadRequest):
            # Neither waits for anything that its client could stop waiting for.
            with self._place(routed, len(request.body)) as has_place:
                if not has_place:
                    return Delivery(overloaded_answer())
                served = await self._answer(request, request_id, routed, _STEADY, deadline_ms)
            return Delivery(served.answer)
        if isinstance(routed, PopRequest | RingRequest) and routed.wait_ms:
            deadline_ms = routed.wait_ms
        asker = LocalAsker(client, impatient=self._is_stopping)
        self._waiting.add(asker)
        try:
            if isinstance(routed, FetchRequest):
                return Delivery(await self._fetches.answer(routed, asker, deadline_ms / 1000))
            with self._place(routed, len(request.body)) as has_place:
                if not has_place:
                    return Delivery(overloaded_answer())
                served = await self._answer(request, request_id, routed, asker, deadline_ms)
        finally:
            self._waiting.discard(asker)
        lease = served.lease
        on_lost = None if lease is None else partial(self.take_back, lease)
        return Delivery(served.answer, on_lost, asker.has_answered)

    async def answer_forwarded(self, forward: Forward, asker: Asker) -> ReplyFrame:
        """Answer a peer's client as leader (see `gate.ForwardedRequests`)."""
        deadline = trio.current_time() + forward.deadline_ms / 1000
        routed = self._route(
            forward.method, forward.target, forward.headers, forward.body, forward.request_id
        )
        outcome: Outcome
        if isinstance(routed, Answer):
            outcome = Served(routed)
        elif isinstance(routed, (Local, FetchRequest)):
            outcome = Served(error_answer(400, "bad_request", "never forwarded"))
        else:
            with self._place(routed, len(forward.body)) as has_place:
                if has_place:
                    routed = asked_by(routed, forward.asking, forward.trial)
                    outcome = await self._serve_forwarded(
                        routed, asker, len(forward.body), deadline
                    )
                else:
                    outcome = Served(overloaded_answer())
        if isinstance(outcome, NotServed):
            return TryAgain(forward.correlation, outcome.handed_over)
        answer = outcome.answer
        return Reply(
            forward.correlation,
            answer.status,
            answer.content_type,
            list(answer.headers),
            answer.body,
            outcome.lease,
        )

    def heard(self, peer: str, connection: object, report: NodeReport) -> None:
        """See `gate.ForwardedRequests`."""
        self._standing.heard(peer, connection, report)

    def lost(self, peer: str, connection: object) -> None:
        """See `gate.ForwardedRequests`."""
        self._standing.lost(peer, connection)

    def take_back(self, lease: str) -> None:
        """Undo a claim that nobody received, here or at the leader."""
        if self._desk.take_back(lease):
            return
        link = self._links.get(self._leadership.leader or "")
        if link is not None:
            link.undelivered(lease)

    def leader_changed(self) -> None:
        """Requests that wait at a node which does not lead any longer are asked again."""
        for peer, link in self._links.items():
            if peer != self._leadership.leader:
                link.abandon()

    def stop(self) -> None:
        """Answer this node's waiting pops and fetches with what there is, from now on."""
        self._is_stopping = True
        for asker in list(self._waiting):
            asker.withdraw(client_gone=False)

    async def _answer(
        self,
        request: framing.Request,
        request_id: str,
        routed: LeaderRequest,
        asker: Asker,
        deadline_ms: int,
    ) -> Served:
        """Ask the leader, whoever that is, until there is an answer or no time left."""
        deadline = trio.current_time() + deadline_ms / 1000
        handed_over = False
        asking, trial = self._new_id() if isinstance(routed, PopRequest) else "", 0
        while True:
            trial += 1
            routed = asked_by(routed, asking, trial)
            if self._leadership.is_serving:
                outcome = await self._serve(routed, asker, len(request.body), deadline)
            else:
                outcome = await self._forward(request, request_id, routed, asker, deadline)
            if isinstance(outcome, NotServed):
                handed_over = handed_over or outcome.handed_over
            elif not handed_over:
                return outcome
            elif is_refused_repeat(routed, outcome.answer):
                return self._give_up(routed, handed_over)
            elif outcome.answer.status not in NOTHING_WAS_APPLIED:
                return outcome
            if asker.impatient and is_pop(routed):
                return Served(nothing(routed))
            if trio.current_time() >= deadline:
                return self._give_up(routed, handed_over)
            self._counters.retried += 1
            pause_ends = deadline
            if self._leadership.leader is not None:
                pause_ends = min(deadline, trio.current_time() + _RETRY_PAUSE_S)
            await self._leadership.wait_change(pause_ends)

    def _place(self, routed: LeaderRequest, size: int) -> contextlib.AbstractContextManager[bool]:
        """Room to wait in; pops have theirs by their connection."""
        if is_pop(routed):
            return _NO_PLACE_NEEDED
        may_grow = isinstance(routed, Write) and grows(routed.command)
        return self._admission.place(size, may_grow)

    async def _serve_forwarded(
        self, routed: LeaderRequest, asker: Asker, size: int, deadline: float
    ) -> Outcome:
        while self._leads() and not self._leadership.is_serving:
            await self._leadership.wait_change(deadline)
            if trio.current_time() >= deadline:
                break
        return await self._serve(routed, asker, size, deadline)

    async def _serve(
        self, routed: LeaderRequest, asker: Asker, size: int, deadline: float
    ) -> Outcome:
        if not self._leadership.is_serving:
            return NotServed(handed_over=False)
        if isinstance(routed, Write):
            return await self._desk.write(routed, size, deadline)
        if isinstance(routed, PopRequest):
            return await self._desk.pop(routed, asker, deadline)
        if isinstance(routed, RingRequest):
            return await self._desk.act(routed, asker, deadline)
        if isinstance(routed, ReportRequest):
            return await self._desk.report(routed, deadline)
        if isinstance(routed, MembersRequest):
            return await self._members.serve(routed, deadline)
        return await self._desk.read(routed, deadline)

    async def _forward(
        self,
        request: framing.Request,
        request_id: str,
        routed: LeaderRequest,
        asker: Asker,
        deadline: float,
    ) -> Outcome:
        leader = self._leadership.leader
        link = self._links.get(leader or "")
        if link is None:
            return NotServed(handed_over=False)
        self._counters.forwarded += 1
        headers = {
            name: request.headers[name] for name in _FORWARDED_HEADERS if name in request.headers
        }
        left_ms = max(0, round((deadline - trio.current_time()) * 1000))
        asking, trial = "", 0
        if isinstance(routed, PopRequest):
            asking, trial = routed.command.asking, routed.command.trial
        ask = link.ask(
            request.method,
            request.target,
            headers,
            request.body,
            request_id,
            left_ms,
            asking,
            trial,
        )
        try:
            if is_pop(routed):
                await self._await_pop(link, ask, asker, deadline + _POP_ANSWER_GRACE_S)
            else:
                with trio.move_on_at(deadline):
                    await ask.done.wait()
        finally:
            if ask.answer is None:
                link.drop(ask)
        reply = ask.answer
        if reply is None:
            return NotServed(handed_over=True)
        if isinstance(reply, TryAgain):
            return NotServed(reply.handed_over)
        headers_back = tuple(reply.headers)
        answer = Answer(reply.status, reply.body, reply.content_type, headers_back)
        return Served(answer, reply.lease)

    async def _await_pop(self, link: ForwardLink, ask: Ask, asker: Asker, deadline: float) -> None:
        await asker.hold(ask.done, deadline)
        if ask.answer is None and asker.impatient and not asker.gone:
            link.withdraw(ask, client_gone=False)
            with trio.move_on_after(_POP_ANSWER_GRACE_S):
                await ask.done.wait()

    def _give_up(self, routed: LeaderRequest, handed_over: bool) -> Served:
        if isinstance(routed, PopRequest | RingRequest) and routed.wait_ms:
            return Served(nothing(routed))
        self._counters.gave_up += 1
        if handed_over and not isinstance(routed, ReadRequest | ReportRequest):
            code, text = "outcome_unknown", "connection to a majority lost before the outcome"
        elif self._leadership.leader is None:
            code, text = "no_leader", "no connection to a leader before the deadline"
        else:
            code, text = "timeout", "no answer over the connection to the leader in time"
        return Served(error_answer(503, code, text, retry_after_s=1))

    def _leads(self) -> bool:
        return self._leadership.leader == self._node

    def _route(
        self, method: str, target: str, headers: Mapping[str, str], body: bytes, request_id: str
    ) -> LeaderRequest | FetchRequest | Local | Answer:
        try:
            admitted = self._guard.admit(
                method, target, headers, self._desk.stamp_us() // 1_000_000
            )
            if isinstance(admitted, Answer):
                return admitted
            subject, mode = admitted.subject, self._subscription_mode
            return route(method, target, headers, body, request_id, subject, mode)
        except Exception as error:
            # One client's bytes must not stop the node for all others; the line says all.
            self._counters.internal_errors += 1
            self._logbook.error(
                "internal",
                method=method,
                target=target,
                reason=f"{type(error).__name__}: {error}",
                where=traceback.format_exc(),
            )
            return error_answer(500, "internal", "the node could not read this request")

    def _new_id(self) -> str:
        """Unlike any other, of any node, ever."""
        self._last_id += 1
        return f"{self._id_prefix}{self._last_id}"

    def _request_id(self, headers: Mapping[str, str]) -> str:
        given = headers.get("x-request-id")
        if given is None:
            return self._new_id()
        if not given or len(given) > REQUEST_ID_MAX:
            raise BadHeaderError(
                f"x-request-id has {len(given)} characters; 1 to {REQUEST_ID_MAX} are allowed"
            )
        return given
