"""A soak made concrete: its mix, its times, and what must come of it.

The times are those of the reference's soak. One of less than `WHOLE_S` shrinks them all alike, so
that long and delayed jobs, the deploy and the leases still fit into it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from ..checkers.contract import Contract
from ..checkers.soak_contract import GrowthBound, SoakContract
from ..histories.memory import FORK_SERVER, MASTER, WORKER
from .jobs import WORK_MS, JobKind, Mix, arrivals

SHARES: Final[Mapping[JobKind, float]] = {
    JobKind.LONG: 0.05,
    JobKind.FLAKY: 0.05,
    JobKind.BAD: 0.03,
    JobKind.DELAYED: 0.02,
}
"""What they leave over, 85 %, is short."""

WHOLE_S: Final = 120.0
"""A soak of so many seconds has the reference's times."""

DEDUP_S: Final = 60
"""Window of the queue's deduplication, and age at which it lets completed messages go.

Longer than any dispatch is repeated: it is sent again within 5 s and retried for 10 s.
"""

BROKER_MEMORY_S: Final = 900
"""A node remembers a message's ids for so long, however short the window: an ack may come."""

MESSAGE_BYTES: Final = 1000
"""Granted to a node for one such message: its ids, its index, a place in two windows."""

_LONG_MS: Final = (5_000, 20_000)
_DELAY_MS: Final = (10_000, 60_000)
_TIMEOUT_S: Final = 25.0
_LEASE_S: Final = 30.0
_LEASE_S_MIN: Final = 3.0
_DRAIN_S: Final = 900.0
_DOWN_S: Final = 2.0
_KILL_EVERY_S: Final = 600.0
_SAMPLE_S_MAX: Final = 60.0
_SAMPLE_S_MIN: Final = 0.2
_SAMPLES: Final = 45
_RESTART_AT: Final = 0.25
_DEPLOY_AT: Final = 0.5
_ONLY_KILL_AT: Final = 0.8
_APART_S: Final = 60.0
_MIB: Final = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class SoakPlan:
    """One soak.

    Attributes:
        load_s: Seconds of load.
        rate: Dispatches a second, whatever becomes of them.
        producers: Clients that dispatch.
        nodes: Names of the nodes.
        scale: Share of the reference's times.
        seed: Of the jobs.
    """

    load_s: float
    rate: float
    producers: int
    nodes: Sequence[str]
    scale: float
    seed: int

    @property
    def restart_s(self) -> float:
        """When new code is put in place, in seconds of the load."""
        return self.load_s * _RESTART_AT

    @property
    def deploy_s(self) -> float:
        """When the supervisor is asked to stop, to be started again, in seconds of the load."""
        return self.load_s * _DEPLOY_AT

    @property
    def kills_s(self) -> tuple[float, ...]:
        """When a worker is killed, in seconds of the load: every ten minutes, at least once."""
        count = int(self.load_s // _KILL_EVERY_S)
        moments = [_KILL_EVERY_S * number for number in range(1, count + 1)]
        moments = [at for at in moments if at <= self.load_s - _APART_S]
        return tuple(self._apart(at) for at in moments or [self.load_s * _ONLY_KILL_AT])

    def _apart(self, at_s: float) -> float:
        """Move a kill away from the deploy and the new code, which both replace all workers."""
        for taken_s in (self.restart_s, self.deploy_s):
            apart_s = min(_APART_S, self.load_s / 8)
            if abs(at_s - taken_s) < apart_s:
                return taken_s + apart_s
        return at_s

    @property
    def sample_s(self) -> float:
        """Pause between two looks at the memory: a minute, or less in a short soak."""
        return min(_SAMPLE_S_MAX, max(_SAMPLE_S_MIN, self.load_s / _SAMPLES))

    @property
    def queue_options(self) -> dict[str, object]:
        """Options of the queue: what is done is let go, so that data does not pass for a leak."""
        return {
            "dedupWindowSeconds": DEDUP_S,
            "retentionEnabled": True,
            "completedRetentionSeconds": DEDUP_S,
        }

    def contract(self, attempts: Contract, mix: Mix) -> SoakContract:
        """Return what must come of it, with a delivery contract whose bounds are the run's."""
        kinds: dict[str, JobKind] = {}
        for number in range(self.producers):
            due = arrivals(
                mix,
                self.seed,
                number,
                self.rate / self.producers,
                self.load_s,
                len(self.nodes),
            )
            kinds |= {arrival.job: arrival.kind for arrival in due}
        node = GrowthBound(factor=1.25, window_mib=round(self._window_mib(), 3))
        return SoakContract(
            attempts=attempts,
            load_s=self.load_s,
            jobs=len(kinds),
            bad=tuple(job for job, kind in kinds.items() if kind is JobKind.BAD),
            growth={
                MASTER: GrowthBound(factor=1.25),
                FORK_SERVER: GrowthBound(factor=1.25),
                WORKER: GrowthBound(factor=1.30),
                **dict.fromkeys(self.nodes, node),
            },
        )

    def _window_mib(self) -> float:
        """How much fuller a node's memory of messages is in the last third than in the first."""
        ages_s = [min(BROKER_MEMORY_S, self.load_s * part) for part in (1 / 6, 5 / 6)]
        # A flaky and a bad job are pushed once more for each further attempt.
        pushes = self.rate * (1 + SHARES[JobKind.FLAKY] + SHARES[JobKind.BAD])
        return (ages_s[1] - ages_s[0]) * pushes * MESSAGE_BYTES / _MIB


def scale_of(load_s: float) -> float:
    """Return the share of the reference's times that a soak of this length has."""
    return min(1.0, load_s / WHOLE_S)


def soak_mix(scale: float, timeout_s: int, resend: float, resend_after_s_max: float) -> Mix:
    """Return the soak's mix at a scale of its times."""
    return Mix(
        shares=SHARES,
        resend=resend,
        resend_after_s_max=resend_after_s_max,
        timeout_s=timeout_s,
        work_ms={**WORK_MS, JobKind.LONG: _scaled(_LONG_MS, scale)},
        delay_ms=_scaled(_DELAY_MS, scale),
    )


def _scaled(span: tuple[int, int], scale: float) -> tuple[int, int]:
    return round(span[0] * scale), round(span[1] * scale)


def soak_settings(scale: float) -> tuple[str, ...]:
    """Return the settings of a soak as `KEY=VALUE`.

    The timeout is in whole seconds, above the longest job and below the lease.
    """
    timeout_s = max(2, math.ceil(_TIMEOUT_S * scale))
    lease_s = max(_LEASE_S_MIN, timeout_s + 1.0, _LEASE_S * scale)
    return (
        "partitions=64",
        f"job_timeout_s={timeout_s}",
        f"retry_after_s={lease_s:g}",
        f"shutdown_grace_s={timeout_s + 3}",
        f"drain_deadline_s={max(60.0, _DRAIN_S * scale):g}",
        f"down_s={max(0.5, _DOWN_S * scale):g}",
    )
