"""What a node says about itself, without asking anyone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol

import msgspec

from ..http.answer import PLAIN
from ..http.openapi import document
from ..http.routes import Answer
from ..http.server import HttpServer
from ..raft.core import RaftCore
from ..raft.events import Role
from .admission import Admission
from .applier import Applier
from .clock import NodeClock
from .counters import Counters
from .desk import LeaderDesk
from .driver import RaftDriver
from .durable_state import DurableState
from .leadership import Leadership
from .membership import Membership
from .page import PAGE_HEADERS, page
from .prometheus import exposition
from .standing import Standing

ENGINE: Final = "atleastonce"
LAG_ENTRIES_MAX: Final = 1000
QUORUM_SILENCE_MS_MAX: Final = 5000
DISK_WAIT_MS_MAX: Final = 5000

State = dict[str, object]


class Parts(Protocol):
    """The parts of a node that can be asked how they are."""

    applier: Applier
    leadership: Leadership
    driver: RaftDriver
    desk: LeaderDesk
    server: HttpServer
    admission: Admission
    standing: Standing
    durable: DurableState | None
    membership: Membership


class About:
    """Answers `/health`, `/metrics`, `/metrics/prometheus`, `/` and `/openapi.json`.

    Attributes:
        leader_commit: The highest commit index that this node has heard of from a leader.
    """

    def __init__(
        self,
        node: str,
        parts: Parts,
        version: str,
        core: RaftCore,
        clock: NodeClock,
        counters: Counters,
    ) -> None:
        self.leader_commit = 0
        self._node = node
        self._parts = parts
        self._version = version
        self._core = core
        self._clock = clock
        self._counters = counters
        self._answers: dict[str, Callable[[], Answer]] = {
            "health": self.health,
            "metrics": self.metrics,
            "prometheus": self.prometheus,
            "page": self.page,
            "openapi": self.openapi,
        }

    def answer(self, name: str) -> Answer:
        """The answer to `Local(name)`."""
        return self._answers[name]()

    @property
    def lag(self) -> int:
        """Committed entries, as far as is known, that this node has not applied."""
        committed = max(self.leader_commit, self._core.commit_index)
        return committed - self._parts.applier.applied_index

    def health(self) -> Answer:
        """200 when this node can serve through a leader it has just heard of, otherwise 503."""
        parts = self._parts
        leadership, remedy = parts.leadership, parts.membership.remedy
        quorum_ms = self._quorum_ms()
        is_healthy = (
            leadership.leader is not None
            and parts.membership.role in ("voter", "learner")
            and (leadership.role is not Role.LEADER or leadership.is_serving)
            and self.lag <= LAG_ENTRIES_MAX
            and quorum_ms is not None
            and quorum_ms <= QUORUM_SILENCE_MS_MAX
            and self._disk_wait_ms() <= DISK_WAIT_MS_MAX
        )
        state = self._state("healthy" if is_healthy else "settling")
        if remedy is not None:
            state |= {"status": "replaced", "remedy": remedy}
        return Answer(200 if is_healthy else 503, msgspec.json.encode(state))

    def metrics(self) -> Answer:
        """The same facts and what waits, always 200."""
        return Answer(200, msgspec.json.encode(self._metrics()))

    def prometheus(self) -> Answer:
        """The same as `metrics`, in Prometheus' text format."""
        text = exposition(self._node, self._version, self._metrics())
        return Answer(200, text.encode(), f"{PLAIN}; version=0.0.4")

    def page(self) -> Answer:
        """The same for people, and this node's copy of the queues."""
        parts = self._parts
        text = page(self._metrics(), parts.standing.places(), parts.desk.overview())
        return Answer(200, text.encode(), "text/html; charset=utf-8", PAGE_HEADERS)

    def openapi(self) -> Answer:
        """The description of all routes."""
        return Answer(200, document(self._version))

    def _quorum_ms(self) -> int | None:
        contact_us = self._core.quorum_contact_us
        if not contact_us:
            return None
        return max(0, self._clock.now_us() - contact_us) // 1000

    def _disk_wait_ms(self) -> int:
        return self._parts.driver.disk_wait_us // 1000

    def _state(self, status: str) -> State:
        parts = self._parts
        return {
            "status": status,
            "engine": ENGINE,
            "version": self._version,
            "node": self._node,
            "raft": {
                "role": parts.leadership.role.value,
                "leader": parts.leadership.leader,
                "term": parts.leadership.term,
                "voters": list(self._core.members.voters),
                "learners": list(self._core.members.learners),
                "membership": parts.membership.role,
                "applied": parts.applier.applied_index,
                "commit": self._core.commit_index,
                "last": self._core.last_index,
                "lag": self.lag,
                "quorumAckMs": self._quorum_ms(),
                "storageReady": self._disk_wait_ms() <= DISK_WAIT_MS_MAX,
            },
            "disk": self._disk(),
            "storage": self._storage(),
            "counters": self._counters.as_dict(),
        }

    def _storage(self) -> State:
        durable = self._parts.durable
        facts: State = {"logStart": self._core.log.start_index}
        return facts if durable is None else facts | durable.facts()

    def _disk(self) -> State:
        standing = self._parts.standing
        space = standing.gauge.space
        return {
            "state": "full" if standing.gauge.is_full else "ok",
            "fullNode": standing.full_node,
            "usedPercent": None if space is None else round(space.used_percent, 1),
            "freeBytes": None if space is None else space.free_bytes,
            "waitMs": self._disk_wait_ms(),
        }

    def _metrics(self) -> State:
        parts = self._parts
        state = self._state("up")
        state["waiting"] = {
            "requests": parts.admission.requests,
            "bytes": parts.admission.bytes,
            "parkedPops": len(parts.desk.lot),
            "connections": parts.server.connections,
        }
        state["brokerTimeUs"] = parts.desk.stamp_us()
        state["timeOfDayUs"] = self._clock.time_of_day_us()
        return state
