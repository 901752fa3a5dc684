"""One run: a cluster under a schedule of faults, then healed, judged throughout."""

from __future__ import annotations

from functools import partial
from hashlib import blake2b
from typing import Final

import msgspec

from ...system.bugs import NO_BUGS, Bugs
from ...system.raft.core import Role
from ...system.raft.messages import Message
from .clients import Clients
from .counters import Counters
from .courier import Courier
from .faults import Fault, random_schedule
from .knobs import Knobs, random_knobs
from .nemesis import Nemesis
from .network import DELAY_US_MAX, Network
from .operator import FIRST_CHANGE, Operator
from .oracles import Oracles, OracleViolationError, number_of
from .scheduler import Scheduler
from .server import Server
from .streams import Stream

HEAL_US_MAX: Final = 10_000_000
"""How long a healed cluster may take to elect, read, commit and converge."""

SENT_PER_OPERATION_MAX: Final = 12
"""Messages that one operation may cost for each node, refusals and repeats included."""

SENT_PER_S_MAX: Final = 2_000
"""Messages that a node may send in a second beside that: heartbeats and elections."""

_POLL_US: Final = 10_000
_SLICE_US: Final = 500_000
_PROBE: Final = 2**40
_WAITING: Final = -1
_FAILED: Final = -2


class Scenario(msgspec.Struct, frozen=True):
    """Everything that decides a run.

    Attributes:
        seed: Root of all random streams.
        knobs: Sizes, limits and times.
        schedule: Faults.
        bugs: Planted defects, sorted.
    """

    seed: int
    knobs: Knobs
    schedule: tuple[Fault, ...]
    bugs: tuple[str, ...] = ()


class Violation(msgspec.Struct, frozen=True):
    """What an oracle found, and when."""

    oracle: str
    detail: str
    at_us: int


class Outcome(msgspec.Struct, frozen=True):
    """How a run ended.

    Attributes:
        violation: The first defect found; None for a clean run.
        counters: What the run reached.
        events: Actions run.
        simulated_us: Length of the run, healing included.
        digest: Equal for runs that went the same way.
    """

    violation: Violation | None
    counters: Counters
    events: int
    simulated_us: int
    digest: str


def random_scenario(seed: int, bugs: Bugs = NO_BUGS) -> Scenario:
    """Return the scenario that a seed stands for, in this version of the simulator."""
    knobs = random_knobs(Stream(seed, "knobs"))
    schedule = random_schedule(Stream(seed, "schedule"), knobs)
    return Scenario(seed, knobs, schedule, tuple(sorted(bugs)))


def run(scenario: Scenario) -> Outcome:
    """Run a scenario to its end or its first violation. Costs about 10 ms for each second."""
    return _Run(scenario).run()


class _Run:
    """The parts of one run, wired."""

    def __init__(self, scenario: Scenario) -> None:
        knobs, seed, bugs = scenario.knobs, scenario.seed, frozenset(scenario.bugs)
        self._length_us = knobs.length_us
        self._sync_us = knobs.sync_us
        self._scheduler = Scheduler()
        self._oracles = Oracles(knobs.servers)
        self._counters = Counters()
        self._network = Network(seed, knobs.servers, self._scheduler, self._deliver)
        self._servers: list[Server] = []
        for node in range(knobs.servers):
            self._servers.append(
                Server(
                    seed,
                    node,
                    knobs,
                    bugs,
                    self._scheduler,
                    self._oracles,
                    self._counters,
                    self._network.send,
                    partial(self._answer, node),
                )
            )
        self._clients = Clients(
            seed, knobs, self._scheduler, self._oracles, self._counters, self._servers
        )
        self._operator = Operator(seed, knobs, self._scheduler, self._servers, self._counters)
        courier = Courier(
            seed, knobs, self._scheduler, self._network, self._servers, self._counters
        )
        for server in self._servers:
            server.on_snapshot_wanted = courier.send
        self._nemesis = Nemesis(
            seed,
            scenario.schedule,
            self._scheduler,
            self._servers,
            self._network,
            self._counters,
        )
        self._probe = _PROBE
        self._probe_index = 0

    def _deliver(self, source: int, target: int, message: Message, incarnation: str) -> None:
        self._servers[target].deliver(self._servers[source].name, message, incarnation)

    def _answer(self, node: int, operation: int, ok: bool, index: int) -> None:
        if operation >= FIRST_CHANGE:
            self._operator.answer(ok)
            return
        if operation >= _PROBE:
            if operation == self._probe:
                self._probe_index = index if ok else _FAILED
            return
        leader = self._servers[node].core.leader
        hint = None if leader is None else number_of(leader)
        self._clients.answer(operation, ok, index, hint)

    def run(self) -> Outcome:
        violation: Violation | None = None
        try:
            while self._scheduler.now_us < self._length_us:
                end_us = min(self._scheduler.now_us + _SLICE_US, self._length_us)
                self._scheduler.run_until(end_us)
                self._check_storm()
            self._heal()
            self._check_storm()
        except OracleViolationError as found:
            violation = Violation(found.oracle, found.detail, self._scheduler.now_us)
        return self._outcome(violation)

    def _check_storm(self) -> None:
        counters = self._counters
        operations = len(self._oracles.committed) + counters.proposed + counters.reads
        sent_max = len(self._servers) * (
            SENT_PER_OPERATION_MAX * operations
            + SENT_PER_S_MAX * (self._scheduler.now_us // 1_000_000 + 1)
        )
        if self._network.sent > sent_max:
            raise OracleViolationError(
                "message-storm", f"{self._network.sent} messages for {operations} operations"
            )

    def _outcome(self, violation: Violation | None) -> Outcome:
        counters = self._counters
        counters.committed = len(self._oracles.committed)
        counters.sent = self._network.sent
        counters.lost = self._network.lost
        counters.doubled = self._network.doubled
        digest = blake2b(digest_size=16)
        for server in self._servers:
            digest.update(f"{server.digest}/{server.applied_index};".encode())
        for entry in self._oracles.committed:
            digest.update(b"%d/%d/" % (entry.index, entry.term) + entry.data)
        digest.update(repr((counters, violation, self._scheduler.events)).encode())
        return Outcome(
            violation,
            counters,
            self._scheduler.events,
            self._scheduler.now_us,
            digest.hexdigest(),
        )

    def _heal(self) -> None:
        """End all faults, then demand a leader, a read, a commit, and convergence, in order."""
        self._clients.is_over = True
        self._operator.is_over = True
        self._nemesis.heal()
        deadline_us = self._scheduler.now_us + HEAL_US_MAX
        leader = self._await_leader(deadline_us)
        while not self._has_read(leader, deadline_us) or not self._has_written(leader, deadline_us):
            leader = self._await_leader(deadline_us)
        members = self._members_of(leader)
        # A new learner may still need the whole log, with a sync for each entry at the worst.
        missing = max(self._probe_index - server.applied_index for server in members)
        deadline_us += missing * (3 * self._sync_us + 2 * DELAY_US_MAX)
        while any(server.applied_index < self._probe_index for server in members):
            self._advance(deadline_us, "not all nodes applied what was committed after healing")

    def _members_of(self, leader: Server) -> list[Server]:
        """Return the members that a leader knows, apart from those whose disk was lost."""
        members = leader.core.members
        servers = [self._servers[number_of(name)] for name in members.servers]
        return [
            server
            for server in servers
            if members.known_of(server.name).incarnation == server.identity
        ]

    def _advance(self, deadline_us: int, failure: str) -> None:
        now_us = self._scheduler.now_us
        if now_us >= deadline_us:
            nodes = ", ".join(
                f"{server.name}: {server.core.role.value} term {server.core.term} "
                f"commit {server.core.commit_index} last {server.core.last_index} "
                f"applied {server.applied_index} voters {','.join(server.core.members.voters)}"
                for server in self._servers
            )
            raise OracleViolationError("liveness", f"{failure} ({nodes})")
        self._scheduler.run_until(now_us + _POLL_US)

    def _await_leader(self, deadline_us: int) -> Server:
        """Return a leader that every member follows."""
        while True:
            for server in self._servers:
                if server.core.role is Role.LEADER and all(
                    other.core.leader == server.name for other in self._members_of(server)
                ):
                    return server
            self._advance(deadline_us, "no leader after healing")

    def _has_read(self, leader: Server, deadline_us: int) -> bool:
        """Read through the leader; False when it must be tried again, perhaps elsewhere."""
        self._probe += 1
        self._probe_index = _WAITING
        floor_index = self._oracles.acked_index
        leader.read(self._probe)
        while self._probe_index == _WAITING:
            if leader.core.role is not Role.LEADER:
                return False
            self._advance(deadline_us, "no read after healing")
        if self._probe_index == _FAILED:
            return False
        self._oracles.on_read(floor_index, self._probe_index)
        return True

    def _has_written(self, leader: Server, deadline_us: int) -> bool:
        """Write through the leader; False when it must be tried again, perhaps elsewhere.

        A leader refuses while it hands over, and a proposal may be lost with its leadership.
        """
        self._probe += 1
        self._probe_index = _WAITING
        leader.propose(self._probe, (b"after healing",))
        while self._probe_index == _WAITING:
            if leader.core.role is not Role.LEADER:
                return False
            self._advance(deadline_us, "no commit after healing")
        return self._probe_index != _FAILED
