"""What a node says about itself, without asking anyone."""

from __future__ import annotations

from typing import Final

import msgspec

from ..http.routes import Answer
from ..raft.core import RaftCore
from ..raft.events import Role
from .applier import Applier
from .clock import NodeClock
from .counters import Counters
from .leadership import Leadership

ENGINE: Final = "atleastonce"
LAG_ENTRIES_MAX: Final = 1000
PROMETHEUS: Final = "text/plain; version=0.0.4; charset=utf-8"
QUORUM_SILENCE_MS_MAX: Final = 5000


class About:
    """Answers `/health`, `/metrics` and `/metrics/prometheus`.

    Attributes:
        leader_commit: The highest commit index that this node has heard of from a leader.
    """

    def __init__(
        self,
        node: str,
        version: str,
        core: RaftCore,
        applier: Applier,
        leadership: Leadership,
        clock: NodeClock,
        counters: Counters,
    ) -> None:
        self.leader_commit = 0
        self._node = node
        self._version = version
        self._core = core
        self._applier = applier
        self._leadership = leadership
        self._clock = clock
        self._counters = counters

    @property
    def lag(self) -> int:
        """Committed entries, as far as is known, that this node has not applied."""
        committed = max(self.leader_commit, self._core.commit_index)
        return committed - self._applier.applied_index

    def health(self) -> Answer:
        """200 when this node can serve through a leader it has just heard of, otherwise 503."""
        leadership = self._leadership
        quorum_ms = self._quorum_ms()
        is_healthy = (
            leadership.leader is not None
            and (leadership.role is not Role.LEADER or leadership.is_serving)
            and self.lag <= LAG_ENTRIES_MAX
            and quorum_ms is not None
            and quorum_ms <= QUORUM_SILENCE_MS_MAX
        )
        state = self._state("healthy" if is_healthy else "settling", quorum_ms)
        return Answer(200 if is_healthy else 503, msgspec.json.encode(state))

    def metrics(self) -> Answer:
        """The same facts, always 200."""
        return Answer(200, msgspec.json.encode(self._state("up", self._quorum_ms())))

    def prometheus(self) -> Answer:
        """The counters as Prometheus reads them, always 200."""
        facts = {
            "raft_applied": self._applier.applied_index,
            "raft_commit": self._core.commit_index,
            "raft_lag": self.lag,
            "raft_term": self._leadership.term,
            **self._counters.as_dict(),
        }
        lines = [f"{ENGINE}_{name} {value}\n" for name, value in facts.items()]
        return Answer(200, "".join(lines).encode(), PROMETHEUS)

    def _quorum_ms(self) -> int | None:
        contact_us = self._core.quorum_contact_us
        if not contact_us:
            return None
        return max(0, self._clock.now_us() - contact_us) // 1000

    def _state(self, status: str, quorum_ms: int | None) -> dict[str, object]:
        return {
            "status": status,
            "engine": ENGINE,
            "version": self._version,
            "node": self._node,
            "raft": {
                "role": self._leadership.role.value,
                "leader": self._leadership.leader,
                "term": self._leadership.term,
                "applied": self._applier.applied_index,
                "commit": self._core.commit_index,
                "last": self._core.last_index,
                "lag": self.lag,
                "quorumAckMs": quorum_ms,
            },
            "counters": self._counters.as_dict(),
        }
