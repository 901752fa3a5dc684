"""Requests about the membership, answered by the leader."""

from __future__ import annotations

import os
from typing import Final

import trio

from ..http.answer import Answer, error_answer, json_answer
from ..http.member_bodies import MemberBody, MembersBody
from ..http.request import MembersRequest
from ..raft.core import RaftCore
from ..raft.events import AddLearner, Change, Promote, Remove
from .address import Address
from .clock import NodeClock
from .desk import NotServed, Outcome, Served
from .frames import FrameError
from .handshake import CHALLENGE_BYTES, HANDSHAKE_TIMEOUT_S, HandshakeError, greet
from .leadership import Leadership
from .links import Dial
from .member_proposals import Verdict
from .membership import Membership
from .node_settings import NodeSettings
from .peers import Peers, address_text

PASSING: Final = frozenset({"not_ready", "change_in_progress", "learner_behind"})
"""Refusals that time heals; waited for when a request makes more than one change."""

_PAUSE_S: Final = 0.1


class RefusedChangeError(Exception):
    """The request cannot be carried out further; the answer says why."""

    def __init__(self, answer: Answer) -> None:
        super().__init__(answer.status)
        self.answer = answer


class LostLeadershipError(Exception):
    """Somebody else must be asked; whether something was handed over."""

    def __init__(self, handed_over: bool) -> None:
        super().__init__(handed_over)
        self.handed_over = handed_over


class MembershipDesk:
    """See the module.

    Args:
        settings: Who this node is.
        dial: Opens connections.
        core: The consensus core.
        membership: The node's own place, and the proposals.
        peers: Where others are reached.
        leadership: Who leads.
        clock: The core's time.
    """

    def __init__(
        self,
        settings: NodeSettings,
        dial: Dial,
        core: RaftCore,
        membership: Membership,
        peers: Peers,
        leadership: Leadership,
        clock: NodeClock,
    ) -> None:
        self._node = settings.node
        self._token = settings.token
        self._dial = dial
        self._core = core
        self._membership = membership
        self._peers = peers
        self._leadership = leadership
        self._clock = clock

    async def serve(self, request: MembersRequest, deadline: float) -> Outcome:
        """Carry a request out as leader; a repeat finds what is done already."""
        try:
            await self._carry_out(request, deadline)
        except RefusedChangeError as refused:
            return Served(refused.answer)
        except LostLeadershipError as lost:
            return NotServed(lost.handed_over)
        return Served(json_answer(self.show()))

    async def _carry_out(self, request: MembersRequest, deadline: float) -> None:
        node = request.node
        if request.action == "add":
            await self._add(node, request.address, deadline)
        elif request.action == "promote":
            await self._change(Promote(node), deadline)
        elif request.action == "remove":
            await self._change(Remove(node), deadline)
        elif request.action == "replace":
            await self._replace(node, deadline)
        elif request.action == "choose":
            await self._choose(request.voters, deadline)

    async def _add(self, node: str, address: Address | None, deadline: float) -> None:
        """Take a node in, once it has told the id of its data folder."""
        if address is None:
            address = self._peers.addresses.get(node)
        if node == self._node:
            await self._change(AddLearner(node), deadline)
            return
        if address is None:
            text = f"where {node} is reached is not known; name its address"
            raise RefusedChangeError(error_answer(400, "bad_request", text))
        incarnation = await self._ask_incarnation(node, address)
        await self._change(AddLearner(node, incarnation, address_text(address)), deadline)

    async def _ask_incarnation(self, node: str, address: Address) -> str:
        """Greet a node; returns the id of its data folder."""
        try:
            with trio.fail_after(HANDSHAKE_TIMEOUT_S):
                stream = await self._dial(address)
                try:
                    challenge = os.urandom(CHALLENGE_BYTES)
                    _, welcome = await greet(
                        stream, self._token, self._node, node, "raft", challenge
                    )
                finally:
                    await trio.aclose_forcefully(stream)
        except (OSError, trio.BrokenResourceError, trio.TooSlowError) as error:
            reason = str(error.__cause__ or error) or type(error).__name__
        except (FrameError, HandshakeError) as error:
            reason = str(error)
        else:
            return welcome.incarnation
        text = f"{node} does not answer at {address[0]}:{address[1]}: {reason}"
        raise RefusedChangeError(error_answer(409, "unreachable", text))

    async def _replace(self, node: str, deadline: float) -> None:
        """Remove a member, and make the node of that name a voter with the folder it has now."""
        address = self._peers.addresses.get(node)
        if node == self._node or address is None:
            text = (
                f"{node} cannot be replaced: it leads"
                if node == self._node
                else (f"where {node} is reached is not known; add it with its address")
            )
            raise RefusedChangeError(error_answer(409, "not_replaceable", text))
        incarnation = await self._ask_incarnation(node, address)
        if self._core.members.known_of(node).incarnation != incarnation:
            await self._persist(Remove(node), deadline)
        await self._add(node, address, deadline)
        await self._persist(Promote(node), deadline)

    async def _choose(self, voters: tuple[str, ...], deadline: float) -> None:
        """Promote and remove until these are the voters; this node goes last."""
        for node in voters:
            if node not in self._core.members.voters:
                if node not in self._core.members.learners:
                    await self._add(node, None, deadline)
                await self._persist(Promote(node), deadline)
        leaving = [node for node in self._core.members.voters if node not in voters]
        for node in sorted(leaving, key=lambda name: name == self._node):
            await self._persist(Remove(node), deadline)

    async def _persist(self, change: Change, deadline: float) -> None:
        """Make a change, waiting while it is only too early for it."""
        while True:
            verdict = await self._membership.proposals.propose(change, deadline)
            is_late = trio.current_time() + _PAUSE_S >= deadline
            if verdict.code not in PASSING or is_late:
                _demand(verdict)
                return
            await trio.sleep(_PAUSE_S)

    async def _change(self, change: Change, deadline: float) -> None:
        _demand(await self._membership.proposals.propose(change, deadline))

    def show(self) -> MembersBody:
        """The membership, as this leader sees it."""
        core, leadership = self._core, self._leadership
        members = core.members
        return MembersBody(
            leadership.leader or "",
            leadership.term,
            core.members_index,
            core.is_members_committed,
            [self._member(name, "voter") for name in members.voters]
            + [self._member(name, "learner") for name in members.learners],
        )

    def _member(self, name: str, role: str) -> MemberBody:
        core, membership = self._core, self._membership
        known = core.members.known_of(name)
        leads = name == self._node
        match_index = core.last_index if leads else core.match_index_of(name)
        contact_us = core.contact_us_of(name)
        met = membership.met_incarnation(name)
        return MemberBody(
            name,
            role,
            leads,
            membership.address_text(name) or None,
            known.incarnation or None,
            match_index or None,
            core.last_index - match_index if match_index else None,
            None if contact_us is None else max(0, self._clock.now_us() - contact_us) // 1000,
            bool(met and known.incarnation and met != known.incarnation),
        )


def _demand(verdict: Verdict) -> None:
    """Go on after a change that was made; otherwise say how it ended."""
    if verdict.ending in ("not-leading", "lost"):
        raise LostLeadershipError(handed_over=verdict.ending == "lost")
    if verdict.ending == "unknown":
        text = "the change is not committed yet, and may still be; ask again"
        raise RefusedChangeError(error_answer(504, "outcome_unknown", text, retry_after_s=1))
    if verdict.ending == "refused":
        raise RefusedChangeError(error_answer(409, verdict.code, verdict.text))
