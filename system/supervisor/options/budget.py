"""How long one round of the master may take, and what must outlast it."""

from __future__ import annotations

import math
from typing import Final

from .shapes import MasterOptions, Options

QUEUES_PER_WAVE: Final = 16
SCOPES_PER_CALL: Final = 4
_START_S: Final = 5.0
_TELEMETRY_S: Final = 60.0
_HEARTBEAT_S_MIN: Final = 15.0
_SLACK_S: Final = 5.0
_GRACE_BEYOND_S: Final = 15.0


def loop_budget_s(options: Options) -> float:
    """Return the longest time between two heartbeats: every wait of a round at its bound."""
    master, pools = options.master, options.pools.values()
    ask_s = len(options.driver.endpoints) * master.http_timeout_s
    total_s = master.poll_interval_s + _SLACK_S
    total_s += sum(math.ceil(len(pool.queues) / QUEUES_PER_WAVE) * ask_s for pool in pools)
    total_s += ask_s * master.remote_status
    total_s += math.ceil(len(options.pools) / SCOPES_PER_CALL) * ask_s * master.coordination
    total_s += (1 + ask_s) * master.event_driven
    total_s += _START_S * sum(pool.size_max for pool in pools)
    return total_s + _TELEMETRY_S * sum(pool.strategy == "time" for pool in pools)


def heartbeat_timeout_s(options: Options) -> float:
    """Return the age at which a status counts as dead."""
    chosen = options.master.heartbeat_timeout_s
    if chosen is not None:
        return chosen
    return max(_HEARTBEAT_S_MIN, loop_budget_s(options) + 1)


def shutdown_grace_s(master: MasterOptions, options: Options) -> float:
    """Return how long a stop waits for running jobs."""
    if master.shutdown_grace_s is not None:
        return master.shutdown_grace_s
    return max(pool.timeout_s for pool in options.pools.values()) + _GRACE_BEYOND_S


def renewal_interval_s(options: Options) -> float:
    """Return the time between renewals: one for all pools, so the shortest lease decides."""
    chosen = options.driver.renewal_interval_s
    if chosen is not None:
        return chosen
    return min(pool.retry_after_s for pool in options.pools.values()) / 3
