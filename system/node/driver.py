"""The one place that feeds the raft core and carries out what it asks for.

Events are stepped in the order in which they were handed over, in the task that handed them over;
an event that arrives while effects are carried out waits until they are. Nothing here awaits.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Protocol

import trio

from ..raft.core import RaftCore
from ..raft.events import (
    Appended,
    Apply,
    ChangeRefused,
    Event,
    LeadershipChanged,
    MemberRegressed,
    MembersChanged,
    MembersKept,
    Persist,
    Persisted,
    ReadFailed,
    ReadReady,
    Refused,
    Send,
    SendSnapshot,
    Tick,
    TransferDone,
)
from ..raft.messages import Entry, Message
from .clock import NodeClock


class Listener(Protocol):
    """What the rest of the node does about the core's effects; none of it may await."""

    def committed(self, entries: tuple[Entry, ...]) -> None:
        """Entries are to be applied."""
        ...

    def appended(self, effect: Appended) -> None:
        """A proposal was appended."""
        ...

    def refused(self, effect: Refused) -> None:
        """A proposal was not appended."""
        ...

    def read_ready(self, effect: ReadReady) -> None:
        """A read may be served."""
        ...

    def read_failed(self, effect: ReadFailed) -> None:
        """A read must be asked for elsewhere."""
        ...

    def leadership_changed(self, effect: LeadershipChanged) -> None:
        """Role, term or leader changed."""
        ...

    def transfer_done(self, effect: TransferDone) -> None:
        """A leadership transfer ended."""
        ...

    def snapshot_needed(self, effect: SendSnapshot) -> None:
        """A member lacks entries that this leader no longer has; `SnapshotSent` must follow."""
        ...

    def persisted(self) -> None:
        """The log became durable up to some point, and what follows from that has happened."""
        ...


class MembersListener(Protocol):
    """What a node does about the membership; its proposals have negative numbers."""

    def appended(self, effect: Appended) -> None:
        """A change was appended."""
        ...

    def refused(self, effect: Refused) -> None:
        """A change came to a node that does not lead."""
        ...

    def kept(self, effect: MembersKept) -> None:
        """A change changes nothing."""
        ...

    def change_refused(self, effect: ChangeRefused) -> None:
        """A change cannot be made."""
        ...

    def regressed(self, effect: MemberRegressed) -> None:
        """A member has lost what it had acknowledged."""
        ...

    def changed(self, effect: MembersChanged) -> None:
        """Another membership is in force."""
        ...


class RaftDriver:
    """Steps the core; see the module.

    Args:
        core: The consensus core.
        clock: Tells the core's time.
        persist: Queues entries for the disk, which later leads to `durable`.
        send: Queues a message for a peer; may drop it.
    """

    def __init__(
        self,
        core: RaftCore,
        clock: NodeClock,
        persist: Callable[[Persist], None],
        send: Callable[[str, Message], None],
    ) -> None:
        self.core = core
        self._clock = clock
        self._persist = persist
        self._send = send
        self._listener: Listener | None = None
        self._members: MembersListener | None = None
        self._events: deque[Event] = deque()
        self._is_stepping = False
        self._asked_sequence = 0
        self._durable_sequence = 0
        self._disk_moved_us = 0
        self._alarm: trio.CancelScope | None = None

    @property
    def disk_wait_us(self) -> int:
        """How long something has waited to become durable without any progress of the disk."""
        return self._clock.now_us() - self._disk_moved_us if self.is_disk_busy else 0

    @property
    def asked_sequence(self) -> int:
        """The last write that was asked for."""
        return self._asked_sequence

    @property
    def durable_sequence(self) -> int:
        """The last write that is durable."""
        return self._durable_sequence

    @property
    def is_disk_busy(self) -> bool:
        """Whether anything waits to become durable."""
        return self._durable_sequence < self._asked_sequence

    def connect(self, listener: Listener, members: MembersListener) -> None:
        """Say who takes the effects; once, before the first step."""
        self._listener = listener
        self._members = members

    def step(self, event: Event) -> None:
        """Hand over one event."""
        self._events.append(event)
        if self._is_stepping:
            return
        self._is_stepping = True
        try:
            while self._events:
                self._step_one(self._events.popleft())
        finally:
            self._is_stepping = False
        if self._alarm is not None:
            at = self._clock.trio_time(self.core.deadline_us)
            if at < self._alarm.deadline:
                self._alarm.deadline = at

    def durable(self, sequence: int) -> None:
        """The disk has everything up to this persist."""
        self._durable_sequence = sequence
        self._disk_moved_us = self._clock.now_us()
        self.step(Persisted(sequence))
        assert self._listener is not None, "driver used before connect"
        self._listener.persisted()

    async def run_timer(self) -> None:
        """Step the core at its deadlines, until cancelled."""
        while True:
            deadline = self._clock.trio_time(self.core.deadline_us)
            with trio.CancelScope(deadline=deadline) as self._alarm:
                await trio.sleep_forever()
            self._alarm = None
            if self._clock.now_us() >= self.core.deadline_us:
                self.step(Tick())

    def _step_one(self, event: Event) -> None:
        listener, members = self._listener, self._members
        assert listener is not None, "driver used before connect"
        assert members is not None, "driver used before connect"
        for effect in self.core.step(self._clock.now_us(), event):
            if isinstance(effect, Send):
                self._send(effect.to, effect.message)
            elif isinstance(effect, Persist):
                if not self.is_disk_busy:
                    self._disk_moved_us = self._clock.now_us()
                self._asked_sequence = effect.sequence
                self._persist(effect)
            elif isinstance(effect, Apply):
                listener.committed(effect.entries)
            elif isinstance(effect, Appended):
                (listener if effect.proposal >= 0 else members).appended(effect)
            elif isinstance(effect, Refused):
                (listener if effect.proposal >= 0 else members).refused(effect)
            elif isinstance(effect, ReadReady):
                listener.read_ready(effect)
            elif isinstance(effect, ReadFailed):
                listener.read_failed(effect)
            elif isinstance(effect, LeadershipChanged):
                listener.leadership_changed(effect)
            elif isinstance(effect, SendSnapshot):
                listener.snapshot_needed(effect)
            elif isinstance(effect, TransferDone):
                listener.transfer_done(effect)
            elif isinstance(effect, MemberRegressed):
                members.regressed(effect)
            elif isinstance(effect, MembersChanged):
                members.changed(effect)
            elif isinstance(effect, MembersKept):
                members.kept(effect)
            else:
                members.change_refused(effect)
