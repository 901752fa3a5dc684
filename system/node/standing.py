"""What the nodes of a cluster tell each other once a second: full disks, time, and their places."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from ..http.answer import Answer, error_answer
from .clock import NodeClock
from .frames import NodeReport
from .gauge import DiskGauge
from .leadership import Leadership
from .links import ForwardLink
from .logbook import Logbook

REPORT_EVERY_S = 1.0


def storage_full_answer(node: str) -> Answer:
    """507: nothing was applied; acks and deletes still are."""
    text = f"the disk of {node} is above its high-water mark; pushes are taken again once it is not"
    return error_answer(507, "storage_full", text, retry_after_s=1)


@dataclass(frozen=True, slots=True)
class Place:
    """Where a node is: its role and term, and how far its log is committed and applied."""

    role: str
    term: int
    commit: int
    applied: int


class Standing:
    """This node's disk, and what its peers said last about theirs.

    A peer that is not connected says nothing: a dead node must not stop the others' pushes.
    """

    def __init__(
        self,
        node: str,
        gauge: DiskGauge,
        clock: NodeClock,
        leadership: Leadership,
        links: Mapping[str, ForwardLink],
        logbook: Logbook,
        place: Callable[[], Place],
    ) -> None:
        self.gauge = gauge
        self._node = node
        self._clock = clock
        self._leadership = leadership
        self._links = links
        self._logbook = logbook
        self._place = place
        self._reports: dict[str, tuple[object, NodeReport]] = {}
        self._log_floor: Callable[[], int | None] = lambda: None
        self._hear_log_floor: Callable[[int | None], None] = lambda _: None

    def share_log_floor(
        self, own: Callable[[], int | None], hear: Callable[[int | None], None]
    ) -> None:
        """Tell peers, and hear from the leader, how far back the log may still be needed."""
        self._log_floor, self._hear_log_floor = own, hear

    @property
    def full_node(self) -> str | None:
        """A node whose disk is full, this one before others."""
        if self.gauge.is_full:
            return self._node
        return next((peer for peer, (_, last) in self._reports.items() if last.disk_full), None)

    def places(self) -> dict[str, Place | None]:
        """Every node's place, this one's first; None for one that is not heard."""
        found: dict[str, Place | None] = {self._node: self._place()}
        for peer in sorted(self._links):
            found[peer] = None
            if peer in self._reports:
                last = self._reports[peer][1]
                found[peer] = Place(last.role, last.term, last.commit, last.applied)
        return found

    def heard(self, peer: str, connection: object, report: NodeReport) -> None:
        """A peer has reported over one of its connections."""
        self._reports[peer] = (connection, report)
        if peer == self._leadership.leader:
            self._hear_log_floor(report.log_floor)
        if report.broker_us is not None and peer == self._leadership.leader:
            self._clock.follow(report.broker_us)

    def lost(self, peer: str, connection: object) -> None:
        """A peer's connection has ended; what came over a newer one stays."""
        if peer in self._reports and self._reports[peer][0] is connection:
            del self._reports[peer]

    def look(self) -> None:
        """Measure this node's disk, and tell all peers."""
        if self.gauge.look():
            space = self.gauge.space
            assert space is not None, "a change without a measurement"
            self._logbook.warning(
                "disk-full" if self.gauge.is_full else "disk-free",
                used_percent=round(space.used_percent, 1),
                free_bytes=space.free_bytes,
            )
        broker_us = None
        if self._leadership.is_serving:
            self._clock.slew()
            broker_us = self._clock.broker_us()
        own = self._place()
        report = NodeReport(
            self.gauge.is_full,
            broker_us,
            own.role,
            own.term,
            own.commit,
            own.applied,
            self._log_floor(),
        )
        for link in self._links.values():
            link.report(report)
