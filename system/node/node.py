"""One broker node: the cores, the ports between them, and what each does about the others."""

from __future__ import annotations

from collections.abc import Callable

import trio

from ..broker.machine import Machine
from ..broker.replies import Reply
from ..http.auth import Guard
from ..http.framing import HttpLimits
from ..http.server import HttpServer
from ..raft.core import RaftCore
from ..raft.events import (
    Appended,
    LeadershipChanged,
    Persist,
    ReadFailed,
    ReadReady,
    Receive,
    Refused,
    Role,
    SendSnapshot,
    TransferDone,
)
from ..raft.members import Checkpoint
from ..raft.messages import AppendEntries, Entry, EntryKind, Message
from .about import About
from .admission import Admission
from .applier import Applier
from .barrier import ReadBarrier
from .clock import NodeClock
from .counters import Counters
from .desk import LeaderDesk
from .driver import RaftDriver
from .due_alarm import DueAlarm
from .durable_state import Disk, DurableState
from .fetches import Fetches
from .gate import PeerGate
from .gauge import DiskGauge, MeasureSpace
from .leadership import Leadership
from .links import Dial, dial_tcp
from .logbook import Logbook
from .membership import Membership
from .membership_desk import MembershipDesk
from .node_settings import NodeSettings
from .ownclock import planner_for
from .peers import Peers
from .proposals import Proposals
from .service import Service
from .standing import REPORT_EVERY_S, Place, Standing
from .upkeep import run_upkeep

__all__ = ["Node", "NodeSettings"]


class Node:
    """Everything of a node but its sockets, its disk and its process.

    Args:
        settings: Who it is.
        core: Its consensus core, just made.
        clock: Its clock.
        persist: Queues entries for the disk; `driver.durable` must follow.
        logbook: Hears what happens.
        counters: Counts it.
        dial: Opens connections to peers.
        measure: Reads the space on the disk; None when it is never full.
        disk: Where its state is kept; None when the log alone has everything.

    Attributes:
        server: Serves client connections.
        gate: Serves peer connections.
        driver: Takes events for the raft core.
        desk: Serves requests while this node leads.
        proposals: The leader's commands on their way.
        leadership: Who leads.
        service: Answers requests.
        transfers: Outcomes of leadership transfers, in order.
        durable: Keeps the state on the disk; None without one.
        membership: Follows who belongs to the cluster.
    """

    def __init__(
        self,
        settings: NodeSettings,
        core: RaftCore,
        clock: NodeClock,
        persist: Callable[[Persist], None],
        logbook: Logbook,
        counters: Counters,
        dial: Dial = dial_tcp,
        measure: MeasureSpace | None = None,
        disk: Disk | None = None,
    ) -> None:
        node = settings.node
        self.machine = disk.opened.machine if disk else Machine(settings.bugs)
        self.leadership = Leadership()
        self.transfers: list[bool] = []
        self._settings = settings
        self._core = core
        self._clock = clock
        self.logbook = logbook
        self._counters = counters
        self._floor: tuple[int, int] | None = None
        self._replayed_index = core.last_index
        self._peers = peers = Peers(settings, logbook, counters, dial)
        self.driver = RaftDriver(core, clock, persist, peers.send)
        step = self.driver.step
        self.membership = Membership(settings, core, step, peers, self.leadership, logbook)
        self.driver.connect(self, self.membership)
        clock.observe(self.machine.now_us, is_live=False)
        self.proposals = Proposals(
            step,
            lambda: self.driver.is_disk_busy,
            lambda: core.last_index,
            clock,
            counters,
            settings.bugs,
            lambda: clock.now_us() - core.quorum_contact_us,
        )
        self.applier = self._make_applier(disk)
        self._barrier = ReadBarrier(step, lambda: self.applier.applied_index)
        self.admission = Admission(settings.limits, counters)
        self.standing = Standing(
            node,
            DiskGauge(measure, settings.limits),
            clock,
            self.leadership,
            self._peers.forward_links,
            logbook,
            self._place,
        )
        self.durable = self._make_durable(disk, dial) if disk else None
        self.desk = self._make_desk()
        self._due_alarm = DueAlarm(self.machine, self.desk, self.leadership, clock)
        self._fetches = Fetches(self.machine, self.desk.stamp_us)
        self._about = About(node, self, settings.version, core, clock, counters)
        self.service = self._make_service(
            MembershipDesk(settings, dial, core, self.membership, peers, self.leadership, clock)
        )
        self.server = self._make_server()
        self.gate = PeerGate(
            settings,
            self.receive,
            self.service,
            logbook,
            counters,
            self.durable.receiver if self.durable else None,
            self.membership,
        )

    @property
    def reaches_quorum(self) -> bool:
        """Whether this node and the voters to which it has a connection are a majority."""
        voters = self._core.members.voters
        reached = self._core.is_voter + self._peers.connected(voters)
        return 2 * reached > len(voters)

    def _place(self) -> Place:
        role, term = self.leadership.role.value, self.leadership.term
        return Place(role, term, self._core.commit_index, self.applier.applied_index)

    def _make_applier(self, disk: Disk | None) -> Applier:
        position = disk.opened.in_force.store.position if disk else Checkpoint()
        if not position.index:
            position = Checkpoint(members=self._core.members)
        return Applier(
            self.machine, position, self._applied, self._caught_up, self.proposals.awaits
        )

    def _make_server(self) -> HttpServer:
        limits = self._settings.limits
        return HttpServer(
            self.service.handle,
            HttpLimits(
                connections_max=limits.connections_max,
                receiving_bytes_max=limits.receiving_bytes_max,
            ),
            self._turned_away,
        )

    def _make_desk(self) -> LeaderDesk:
        return LeaderDesk(
            self._settings.node,
            self.machine,
            self.leadership,
            self.proposals,
            self._barrier,
            self._clock,
            self._counters,
            self.admission,
            self.standing,
            self._settings.bugs,
        )

    def _make_durable(self, disk: Disk, dial: Dial) -> DurableState:
        settings = self._settings
        durable = DurableState(
            disk,
            settings.node,
            settings.token,
            self._peers.addresses,
            dial,
            settings.bugs,
            self._core,
            self.driver,
            self.applier,
            self._clock,
            self.logbook,
            self._counters,
        )
        keeper = durable.checkpointer
        self.standing.share_log_floor(lambda: keeper.own_floor, keeper.hear_floor)
        return durable

    def _make_service(self, members: MembershipDesk) -> Service:
        settings = self._settings
        return Service(
            settings.node,
            self.desk,
            members,
            self._peers.forward_links,
            self.leadership,
            self._fetches,
            self._about,
            self.logbook,
            self._counters,
            settings.request_deadline_ms,
            Guard(settings.jwt_secret),
            settings.subscription_mode,
            self.admission,
            self.standing,
        )

    async def run(self) -> None:
        """Drive the cores and keep the links to peers, until cancelled."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self.driver.run_timer)
            nursery.start_soon(self.applier.run)
            nursery.start_soon(self._due_alarm.run)
            nursery.start_soon(self._run_standing)
            nursery.start_soon(run_upkeep, self.desk, self.machine, self.leadership)
            nursery.start_soon(self.server.watch)
            nursery.start_soon(self.desk.patience.watch)
            if self.durable is not None:
                nursery.start_soon(self.durable.run)
            nursery.start_soon(self._peers.run)
            nursery.start_soon(self.membership.run)

    def receive(self, sender: str, message: Message, incarnation: str = "") -> None:
        """Take a raft message from a peer."""
        self.driver.step(Receive(sender, message, incarnation))
        if isinstance(message, AppendEntries) and message.term == self._core.term:
            self._about.leader_commit = max(self._about.leader_commit, message.commit_index)
            if self._floor is None:
                self._floor = (message.term, message.commit_index)
                self._open_fetches_if_current()

    # What the driver reports (see `driver.Listener`).

    def committed(self, entries: tuple[Entry, ...]) -> None:
        """Entries are to be applied."""
        self.applier.add(entries)

    def appended(self, effect: Appended) -> None:
        """A proposal was appended."""
        self.proposals.appended(effect)

    def refused(self, effect: Refused) -> None:
        """A proposal was not appended."""
        self.proposals.refused(effect)

    def read_ready(self, effect: ReadReady) -> None:
        """A read may be served."""
        self._barrier.ready(effect)

    def read_failed(self, effect: ReadFailed) -> None:
        """A read must be asked for elsewhere."""
        self._barrier.failed(effect)

    def transfer_done(self, effect: TransferDone) -> None:
        """A leadership transfer ended."""
        self.transfers.append(effect.ok)
        self.leadership.announce()

    def snapshot_needed(self, effect: SendSnapshot) -> None:
        """A member lacks entries that this leader no longer has."""
        assert self.durable is not None, "a log without checkpoints was compacted"
        self.durable.sender.ask(effect)

    def persisted(self) -> None:
        """The disk is free for what has gathered."""
        self.proposals.flush()

    def leadership_changed(self, effect: LeadershipChanged) -> None:
        """Role, term or leader changed."""
        leadership = self.leadership
        if leadership.role is Role.LEADER:
            assert effect.role is not Role.LEADER, (
                f"leader of term {leadership.term} leads term {effect.term} without an election"
            )
            self._step_down(effect)
        elif leadership.is_serving:
            # Only with the planted defect that keeps a deposed leader from noticing.
            self._stop_serving(effect)
        leadership.role = effect.role
        leadership.term = effect.term
        leadership.leader = effect.leader
        self.logbook.info("role", role=effect.role.value, term=effect.term, leader=effect.leader)
        leadership.announce()
        self.service.leader_changed()

    def _step_down(self, effect: LeadershipChanged) -> None:
        self._stop_serving(effect)
        if self._core.is_transferring or self.transfers:
            reason = "handed over"
        elif effect.term > self.leadership.term:
            reason = f"term {effect.term} has begun"
        else:
            reason = "no quorum has answered in time"
        self.logbook.warning("step-down", term=self.leadership.term, reason=reason)

    def _stop_serving(self, effect: LeadershipChanged) -> None:
        if "answer-by-log-index" not in self._settings.bugs or effect.role is Role.LEADER:
            self._notice_step_down()
        elif effect.leader is not None:
            trio.lowlevel.current_trio_token().run_sync_soon(self._notice_step_down)

    def _notice_step_down(self) -> None:
        self.leadership.is_serving = False
        self.proposals.step_down()
        self.membership.proposals.step_down()
        self.desk.send_all_away()

    def _turned_away(self) -> None:
        self._counters.refused_connections += 1

    async def _run_standing(self) -> None:
        while True:
            self.standing.look()
            await trio.sleep(REPORT_EVERY_S)

    def _applied(self, entry: Entry, replies: list[Reply]) -> None:
        self._counters.applied += 1
        if self.durable is not None:
            self.durable.checkpointer.applied(entry)
        if entry.kind is EntryKind.CONFIG:
            self.membership.proposals.applied(entry)
        elif entry.kind is EntryKind.COMMAND:
            self._clock.observe(self.machine.now_us, is_live=entry.index > self._replayed_index)
        self.proposals.applied(entry, replies)
        leadership = self.leadership
        if (
            leadership.role is Role.LEADER
            and not leadership.is_serving
            and entry.term == leadership.term
        ):
            self.machine.become_leader()
            self._clock.lead()
            clock, bugs = self._clock, self._settings.bugs
            self.proposals.lead(planner_for(self.machine.now_us, clock.time_of_day_us, bugs))
            leadership.is_serving = True
            self._fetches.open()
            self.logbook.info("serving", term=entry.term, log_index=entry.index)
            leadership.announce()

    def _caught_up(self) -> None:
        self._barrier.applied()
        touched = self.machine.take_touched()
        if touched:
            self._fetches.wake(touched)
        if not self._fetches.is_open:
            self._open_fetches_if_current()
        if self.leadership.is_serving:
            self.desk.wake(touched)
            self.desk.fire_due_timers()
            self.proposals.flush()
            self._due_alarm.bring_forward()

    def _open_fetches_if_current(self) -> None:
        """Serve local reads once they cannot be older than what was shown before the start.

        All that was ever committed before a leader's own first entry, or counted in the commit
        index that it names, is then applied here.
        """
        if self._floor is not None:
            term, commit_index = self._floor
            applier = self.applier
            if applier.applied_term >= term and applier.applied_index >= commit_index:
                self._fetches.open()
