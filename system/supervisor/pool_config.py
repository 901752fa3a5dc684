"""What the master is told about pools that grow and shrink, as JSON beside its other settings."""

from __future__ import annotations

from typing import Literal

import msgspec

from ..jobs.settings import WorkerSettings
from .core.pool import RestartPolicy
from .core.scaling_policy import Balance, ScalingPolicy, Strategy

_US = 1_000_000


class ScalingSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How a pool is sized; the attributes are those of `ScalingPolicy`, in seconds."""

    balance: Literal["auto", "simple", "off"] = "auto"
    strategy: Literal["size", "time"] = "size"
    min_processes: int = 1
    max_processes: int = 10
    processes: int = 10
    min_per_queue: int = 0
    jobs_per_process: int = 10
    clear_s: float = 60.0
    default_runtime_s: float = 1.0
    cooldown_s: float = 3.0
    max_shift: int = 1
    fast_scale_up: bool = False
    scale_down_delay_s: float = 10.0

    def policy(self, queues: int) -> ScalingPolicy:
        """Return the bounds and the pace for so many queues."""
        return ScalingPolicy(
            queues=queues,
            balance=Balance(self.balance),
            strategy=Strategy(self.strategy),
            min_processes=self.min_processes,
            max_processes=self.max_processes,
            processes=self.processes,
            min_per_queue=self.min_per_queue,
            jobs_per_process=self.jobs_per_process,
            clear_us=max(1, round(self.clear_s * _US)),
            default_runtime_us=round(self.default_runtime_s * _US),
            cooldown_us=round(self.cooldown_s * _US),
            max_shift=self.max_shift,
            fast_scale_up=self.fast_scale_up,
            scale_down_delay_us=round(self.scale_down_delay_s * _US),
        )


class PoolConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One pool.

    Attributes:
        name: Its name.
        queues: What it serves, in order.
        worker: What each worker is set to; its queue is the one that it gets.
        scaling: How the pool is sized.
        restart_backoff_s: See `SupervisorConfig`, for this pool.
        restart_backoff_max_s: Likewise.
        stable_after_s: Likewise.
        prefork: See `SupervisorConfig`, for this pool.
        force: Whether it works in maintenance, too.
    """

    name: str
    queues: tuple[str, ...]
    worker: WorkerSettings
    scaling: ScalingSettings = ScalingSettings()
    restart_backoff_s: float = 1.0
    restart_backoff_max_s: float = 30.0
    stable_after_s: float = 60.0
    prefork: bool = True
    force: bool = False

    def restart_policy(self) -> RestartPolicy:
        """Return the delays of restarts and the bounds of the circuit."""
        return RestartPolicy(
            backoff_us=round(self.restart_backoff_s * _US),
            backoff_max_us=round(self.restart_backoff_max_s * _US),
            stable_after_us=round(self.stable_after_s * _US),
        )


class ControlConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How the master sees to its pools.

    Attributes:
        poll_interval_s: Time between two looks at the queues.
        http_timeout_s: Longest wait for one node's answer.
        event_driven: Whether new messages wake pools between polls.
        telemetry_ttl_s: How long an observed duration of jobs counts.
        lease_renewal: Whether the workers' leases are renewed.
        coordination: Whether replicas share their targets.
        remote_status: Whether the status is also published in the broker.
        round_s: Longest time between two heartbeats of a master that is well.
    """

    poll_interval_s: float = 3.0
    http_timeout_s: float = 5.0
    event_driven: bool = False
    telemetry_ttl_s: float = 300.0
    lease_renewal: bool = True
    coordination: bool = False
    remote_status: bool = False
    round_s: float = 14.0
