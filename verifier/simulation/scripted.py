"""Cores driven by hand, one event at a time: for claims and regressions that a script tells best.

Nothing happens by itself: time stands still, disks sync and messages arrive when the script says.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from ...system.bugs import NO_BUGS, Bugs
from ...system.raft.core import (
    Apply,
    ChangeMembers,
    Checkpoint,
    Effect,
    Event,
    Persist,
    Persisted,
    Propose,
    RaftConfig,
    RaftCore,
    RaftLog,
    Receive,
    Role,
    Send,
    Tick,
)
from ...system.raft.events import Change
from ...system.raft.messages import (
    AppendReply,
    Entry,
    EntryKind,
    HardState,
    Message,
    VoteReply,
)

_Kind = TypeVar("_Kind")

THREE = ("n1", "n2", "n3")
FIVE = ("n1", "n2", "n3", "n4", "n5")


def entries_of(terms: Sequence[int], first_index: int = 1) -> tuple[Entry, ...]:
    """Return commands with the given terms; the data tells term and index."""
    return tuple(
        Entry(term, index, EntryKind.COMMAND, b"%d@%d" % (index, term))
        for index, term in enumerate(terms, first_index)
    )


class ScriptedServer:
    """One core, its disk, and everything it has put out.

    Attributes:
        core: The core.
        now_us: Time given to the core.
        writes: Writes that are not durable yet.
        sent: Messages not yet taken by `take_sent`, with their receivers.
        applied: Entries applied, in order.
        outcomes: All other effects, in order.
        syncs_at_once: Whether writes become durable as soon as they are issued.
    """

    def __init__(
        self,
        node_id: str = "n1",
        voters: tuple[str, ...] = THREE,
        log: Sequence[int] = (),
        term: int | None = None,
        voted_for: str | None = None,
        start_index: int = 1,
        previous_term: int = 0,
        bugs: Bugs = NO_BUGS,
        entropy: Callable[[int, int], int] = min,
        check_quorum: bool = True,
        incarnation: str = "",
        checkpoint: Checkpoint | None = None,
        on_probation: bool = False,
        **settings: int,
    ) -> None:
        """Start a server whose durable log has entries of the given terms.

        Args:
            node_id: Name.
            voters: All servers.
            log: Terms of the entries from `start_index` on.
            term: Durable term; by default that of the last entry.
            voted_for: Durable vote.
            start_index: First index of the log.
            previous_term: Term of the entry before.
            bugs: Planted defects.
            entropy: Draws election timeouts; by default the shortest.
            check_quorum: Of `RaftConfig`.
            incarnation: Of `RaftConfig`.
            on_probation: Of `RaftConfig`.
            checkpoint: What the state machine holds; by default what comes before the log.
            settings: Of `RaftConfig`, the numbers.
        """
        self.config = RaftConfig(
            node_id=node_id,
            voters=voters,
            check_quorum=check_quorum,
            incarnation=incarnation,
            on_probation=on_probation,
            **settings,
        )
        entries = entries_of(log, start_index)
        last_term = log[-1] if log else previous_term
        self.now_us = 1_000_000
        self.core = RaftCore(
            self.config,
            HardState(last_term if term is None else term, voted_for),
            RaftLog(entries, start_index, previous_term),
            entropy,
            self.now_us,
            bugs,
            checkpoint,
        )
        self.hard_state = HardState(self.core.term, voted_for)
        self.writes: list[Persist] = []
        self.sent: list[tuple[str, Message]] = []
        self.applied: list[Entry] = []
        self.outcomes: list[Effect] = []
        self.syncs_at_once = True

    def step(self, event: Event) -> list[Effect]:
        """Give the core an event and file its effects."""
        effects = self.core.step(self.now_us, event)
        for effect in effects:
            if isinstance(effect, Send):
                self.sent.append((effect.to, effect.message))
            elif isinstance(effect, Persist):
                self.writes.append(effect)
            elif isinstance(effect, Apply):
                self.applied += effect.entries
            else:
                self.outcomes.append(effect)
        if self.syncs_at_once and self.writes:
            self.sync()
        return effects

    def sync(self, count: int | None = None) -> None:
        """Make the oldest `count` writes durable, by default all."""
        done = self.writes[:count]
        del self.writes[:count]
        for write in done:
            self.hard_state = write.hard_state or self.hard_state
        if done:
            self.step(Persisted(done[-1].sequence))

    def receive(self, sender: str, message: Message) -> list[Message]:
        """Take a message; returns what is sent back to its sender because of it."""
        count = len(self.sent)
        self.step(Receive(sender, message))
        return [message for to, message in self.sent[count:] if to == sender]

    def tick(self, after_us: int | None = None) -> None:
        """Let time pass, by default until the deadline, and tick."""
        self.now_us = self.core.deadline_us if after_us is None else self.now_us + after_us
        self.step(Tick())

    def propose(self, *payloads: bytes) -> None:
        """Propose payloads as proposal 1."""
        self.step(Propose(1, payloads))

    def change(self, change: Change) -> None:
        """Ask for a change of the membership as proposal 1."""
        self.step(ChangeMembers(1, change))

    def take_sent(self, kind: type[_Kind], to: str | None = None) -> list[_Kind]:
        """Return what of a kind was sent so far (to one server), and forget all that was sent."""
        taken: list[_Kind] = [
            message
            for receiver, message in self.sent
            if isinstance(message, kind) and to in (None, receiver)
        ]
        self.sent.clear()
        return taken

    def outcomes_of(self, kind: type[_Kind]) -> list[_Kind]:
        """Return the effects of a kind, apart from writes, sends and applies, so far."""
        return [outcome for outcome in self.outcomes if isinstance(outcome, kind)]

    def campaign(self) -> None:
        """Time out and pass the pre-vote, so that real votes are asked for."""
        self.tick()
        for peer in self._majority():
            self.receive(peer, VoteReply(self.core.term + 1, True, True))

    def win(self) -> None:
        """Time out and be elected by just a majority."""
        if self._peers():
            self.campaign()
            for peer in self._majority():
                self.receive(peer, VoteReply(self.core.term, True, False))
        else:
            self.tick()
        assert self.core.role is Role.LEADER, f"{self.config.node_id} is {self.core.role.value}"

    def _peers(self) -> list[str]:
        return [voter for voter in self.core.members.voters if voter != self.config.node_id]

    def _majority(self) -> list[str]:
        peers = self._peers()
        return peers[: (len(peers) + self.core.is_voter) // 2 + 1 - self.core.is_voter]


def scripted_leader(voters: tuple[str, ...] = THREE) -> ScriptedServer:
    """Return n1, which leads term 1, has committed its first entry and sent everything."""
    leader = ScriptedServer(voters=voters)
    leader.win()
    for peer in voters[1:]:
        leader.receive(peer, AppendReply(1, True, 1, 0))
    leader.sent.clear()
    return leader


class ScriptedCluster:
    """Servers and the messages between them, in order of sending.

    Attributes:
        servers: By name.
        cut: Names that no message reaches or leaves.
        deaf: Names that no message reaches.
        delivered: Every message delivered, with its sender and receiver.
    """

    def __init__(self, *servers: ScriptedServer) -> None:
        self.servers = {server.config.node_id: server for server in servers}
        self.cut: set[str] = set()
        self.deaf: set[str] = set()
        self.delivered: list[tuple[str, str, Message]] = []

    def deliver(self) -> None:
        """Deliver messages, and those they cause, until none is left."""
        while True:
            batch = [
                (name, to, message)
                for name, server in self.servers.items()
                for to, message in server.sent
            ]
            if not batch:
                return
            for server in self.servers.values():
                server.sent.clear()
            for name, to, message in batch:
                if name not in self.cut and to not in self.cut | self.deaf:
                    self.delivered.append((name, to, message))
                    self.servers[to].step(Receive(name, message))

    def pass_time(self, duration_us: int) -> None:
        """Let time pass for all, a millisecond at a time, with ticks and messages as they come."""
        for _ in range(duration_us // 1000):
            for server in self.servers.values():
                server.now_us += 1000
                if server.now_us >= server.core.deadline_us:
                    server.step(Tick())
            self.deliver()

    def elect(self, name: str) -> ScriptedServer:
        """Let one server time out and win; returns it."""
        server = self.servers[name]
        for other in self.servers.values():
            other.now_us = max(other.now_us, server.core.deadline_us)
        server.tick()
        self.deliver()
        assert server.core.role is Role.LEADER, f"{name} is {server.core.role.value}"
        return server

    def leaders(self) -> list[str]:
        """Return the names of all that take themselves for leaders."""
        return [name for name, server in self.servers.items() if server.core.role is Role.LEADER]


def elected_cluster(*names: str, voters: tuple[str, ...] = THREE) -> ScriptedCluster:
    """Return a cluster of `voters` that n1 leads; the other names are empty servers that wait."""
    servers = [ScriptedServer(name, voters if name in voters else ()) for name in names]
    cluster = ScriptedCluster(*servers)
    cluster.elect("n1")
    cluster.pass_time(200_000)
    return cluster
