"""What a node does about who belongs to the cluster: links, addresses, and its own place.

The membership itself is the consensus core's. A node whose data folder is new does not vote until
enough peers have said that they know no other folder of it; one that hears of another folder waits
to be replaced, and says so.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import trio

from ..raft.core import RaftCore
from ..raft.events import (
    Appended,
    ChangeMembers,
    ChangeRefused,
    MemberRegressed,
    MembersChanged,
    MembersKept,
    Record,
    Refused,
    Vouched,
)
from ..raft.members import Known
from .frames import Hello
from .leadership import Leadership
from .logbook import Logbook
from .member_proposals import MemberProposals
from .node_settings import NodeSettings
from .peers import Peers, address_text, parse_address

LOOK_EVERY_S: Final = 0.25
RECORD_TIMEOUT_S: Final = 5.0


class Membership:
    """See the module.

    Args:
        settings: Who this node is.
        core: The consensus core.
        step: Hands it an event.
        peers: The links.
        leadership: Who leads.
        logbook: Hears what happens.

    Attributes:
        proposals: Changes on their way.
        replaced_by: A peer that knows this node by another data folder, once one has said so.
    """

    def __init__(
        self,
        settings: NodeSettings,
        core: RaftCore,
        step: Callable[[Vouched | ChangeMembers], None],
        peers: Peers,
        leadership: Leadership,
        logbook: Logbook,
    ) -> None:
        self.proposals = MemberProposals(step)
        self.replaced_by: str | None = None
        self._node = settings.node
        self._address = settings.address
        self._core = core
        self._step = step
        self._peers = peers
        self._configured = dict(peers.addresses)
        self._leadership = leadership
        self._incarnation = settings.incarnation
        self._prove = settings.prove
        self._logbook = logbook
        self._met: dict[str, str] = {}
        self._guests: set[str] = set()
        self._vouching: set[str] = set()
        self._seeds = tuple(core.members.voters)
        peers.met = self.met
        self._follow()

    @property
    def role(self) -> str:
        """This node's place: voter, learner, replaced, removed, or waiting to be taken in."""
        members = self._core.members
        if self.replaced_by is not None:
            return "replaced"
        if self._node in members.servers:
            return "voter" if self._core.is_voter else "learner"
        return "removed" if members.voters else "waiting"

    @property
    def remedy(self) -> str | None:
        """What to do about a node that was replaced; None when all is well."""
        if self.replaced_by is None:
            return None
        return (
            f"the data folder of {self._node} is new, and the cluster knows {self._node} by "
            "another one; run: atleastonce broker members replace "
            f"{self._node} --url http://ANOTHER-NODE"
        )

    def known_incarnation(self, name: str) -> str:
        """The id by which the membership knows a node; empty for none."""
        return self._core.members.known_of(name).incarnation

    def met_incarnation(self, name: str) -> str:
        """The id that a node named last; empty for none."""
        return self._met.get(name, "")

    def met(self, peer: str, incarnation: str, known: str) -> None:
        """A link reached a peer (see `links.Met`)."""
        if incarnation:
            self._met[peer] = incarnation
        if known not in ("", self._incarnation):
            if self._core.is_on_probation and self.replaced_by is None:
                self.replaced_by = peer
                self._logbook.error("replaced", peer=peer, remedy=self.remedy)
        elif peer in self._seeds:
            self._vouching.add(peer)
            self._vouch()

    def introduced(self, hello: Hello) -> None:
        """A node has connected; one that this node's membership does not know yet is answered."""
        if hello.incarnation:
            self._met[hello.node] = hello.incarnation
        address = parse_address(hello.address)
        if address is not None and hello.node not in self._peers.addresses:
            self._guests.add(hello.node)
            self._peers.add(hello.node, address)

    def _vouch(self) -> None:
        """End the probation once no majority can have counted on another folder of this node.

        Whatever was committed with its help is on a majority of the voters, less itself.
        """
        voters = len(self._seeds)
        others = voters - 1
        needed = min(others, others - voters // 2 + 1)
        if (
            self._core.is_on_probation
            and self.replaced_by is None
            and self._node in self._seeds
            and len(self._vouching) >= needed
        ):
            self._prove()
            self._logbook.info("first-start", heard=sorted(self._vouching))
            self._step(Vouched())

    # What the driver reports.

    def appended(self, effect: Appended) -> None:
        """A change was appended."""
        self.proposals.appended(effect)

    def refused(self, effect: Refused) -> None:
        """A change came to a node that does not lead."""
        self.proposals.refused(effect)

    def kept(self, effect: MembersKept) -> None:
        """A change changes nothing."""
        self.proposals.kept(effect)

    def change_refused(self, effect: ChangeRefused) -> None:
        """A change cannot be made."""
        self.proposals.change_refused(effect)

    def regressed(self, effect: MemberRegressed) -> None:
        """A member has lost what it had acknowledged; it gets it again, and must be replaced."""
        self._logbook.error(
            "member-lost-entries",
            peer=effect.node,
            acknowledged=effect.match_index,
            remedy=f"stop {effect.node}, empty its data folder, start it, and replace it",
        )

    def changed(self, effect: MembersChanged) -> None:
        """Another membership is in force."""
        members = effect.members
        self._logbook.info(
            "members",
            voters=list(members.voters),
            learners=list(members.learners),
            log_index=effect.index,
        )
        if self._incarnation and self.known_incarnation(self._node) == self._incarnation:
            self.replaced_by = None
        self._follow()

    def _follow(self) -> None:
        """Reach every member whose address is known; the configuration counts before the log."""
        for known in self._core.members.known:
            address = parse_address(known.address)
            if address is not None and known.name not in self._configured:
                self._peers.add(known.name, address)

    async def run(self) -> None:
        """Look after links and records, until cancelled."""
        self._vouch()
        while True:
            await trio.sleep(LOOK_EVERY_S)
            self._drop_strangers()
            facts = self._unrecorded()
            if facts and self._leadership.is_serving:
                deadline = trio.current_time() + RECORD_TIMEOUT_S
                await self.proposals.propose(Record(facts), deadline)

    def _drop_strangers(self) -> None:
        """Let go of nodes that have left, once they have had the last word."""
        core = self._core
        for name in list(self._peers.addresses):
            is_needed = name in self._guests or name in core.members.servers
            is_needed = is_needed or name in self._configured
            if not is_needed and core.match_index_of(name) is None:
                self._peers.drop(name)

    def _unrecorded(self) -> tuple[Known, ...]:
        """What this node knows of members of which the membership says nothing."""
        facts = []
        for name in self._core.members.servers:
            if not self.known_incarnation(name):
                is_self = name == self._node
                incarnation = self._incarnation if is_self else self.met_incarnation(name)
                if incarnation:
                    facts.append(Known(name, incarnation, self.address_text(name)))
        return tuple(facts)

    def address_text(self, name: str) -> str:
        """Where a node is reached, as the membership records it; empty when that is unknown."""
        address = self._address if name == self._node else self._peers.addresses.get(name)
        if address is None:
            return self._core.members.known_of(name).address
        return address_text(address)
