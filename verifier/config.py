"""What each process of a run is told: the scenario, in the words of the system."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

import msgspec

from ..nemesis.levels import CLOCK_HOOKS
from ..nemesis.registry import NEMESES
from ..system.jobs.settings import SettingError, WorkerSettings
from ..system.node.config import ConfigError as NodeConfigError
from ..system.node.config import NodeConfig, check_config
from ..system.node.storage_limits import StorageLimits
from ..system.supervisor.config import RenewalSettings, SupervisorConfig, find_problems
from ..workloads.registry import WORKLOADS
from .errors import UsageError
from .network import WORKERS, Network
from .scenario import Scenario
from .store import RunPaths

CONSUMER_GROUP: Final = "workers"
CODE_VERSION: Final = "1"
SHORT_LOG: Final = StorageLimits(
    checkpoint_ms=250,
    segment_bytes=16 << 10,
    tail_bytes=2 << 10,
    hold_bytes=8 << 10,
    scrub_pause_s=5,
)
"""So little that a member which was away for some seconds needs a snapshot: runs are short."""

_RENEWAL_PAUSE_S: Final = 1.0
_RENEWAL_TIMEOUT_S_MAX: Final = 0.5


def node_config(scenario: Scenario, run: RunPaths, node: str, network: Network) -> NodeConfig:
    """Build one node's configuration.

    Raises:
        UsageError: The settings do not make a node.
    """
    settings = scenario.settings
    has_clock_faults = any(CLOCK_HOOKS in NEMESES[fault.kind].needs for fault in scenario.plan)
    config = NodeConfig(
        node=node,
        data_dir=str(run.node_data(node)),
        client=network.client_address(node),
        peers=dict(network.peers_of(node)),
        allow_remote=network.allow_remote,
        token_file=str(run.token),
        disk=settings.disk,
        bugs=scenario.bugs,
        election_ms_min=settings.election_ms_min,
        election_ms_max=settings.election_ms_max,
        heartbeat_ms=settings.heartbeat_ms,
        die_with_parent=True,
        parent_pid=os.getpid(),
        time_of_day_file=str(run.node_time_of_day(node)) if has_clock_faults else None,
        storage=msgspec.structs.replace(SHORT_LOG, checkpoint_ms=settings.checkpoint_ms),
    )
    try:
        return check_config(config)
    except NodeConfigError as error:
        raise UsageError(str(error)) from None


def renewal_settings(retry_after_s: float, nodes: int) -> RenewalSettings:
    """Choose renewal times that fit a lease: two attempts over all nodes, and the fence."""
    interval_s = retry_after_s / 4
    grace_s = min(1.0, retry_after_s / 10)
    margin_s = min(0.5, retry_after_s / 16)
    left_s = retry_after_s - interval_s - _RENEWAL_PAUSE_S - grace_s - margin_s
    timeout_s = min(_RENEWAL_TIMEOUT_S_MAX, 0.9 * left_s / (2 * nodes))
    return RenewalSettings(
        interval_s=interval_s, timeout_s=timeout_s, grace_s=grace_s, margin_s=margin_s
    )


def supervisor_config(
    scenario: Scenario, run: RunPaths, network: Network, name: str = "supervisor"
) -> SupervisorConfig:
    """Build the supervisor's and the workers' configuration, for a workload of jobs.

    Raises:
        UsageError: The settings do not make a supervisor.
    """
    settings, jobs = scenario.settings, WORKLOADS[scenario.workload].jobs
    assert jobs is not None, f"workload {scenario.workload} has no workers"
    try:
        worker = WorkerSettings(
            queue=jobs.queue,
            endpoints=tuple((at.host, at.port) for at in network.endpoints(WORKERS).values()),
            state_dir=str(run.state_of(name)),
            consumer_group=CONSUMER_GROUP,
            partitions=settings.partitions,
            prefetch=settings.prefetch,
            ack_async=settings.ack_async,
            ack_batch=settings.ack_batch,
            pop_ahead=settings.pop_ahead,
            retry_after_s=settings.retry_after_s,
            block_for_s=settings.block_for_s,
            timeout_s=settings.job_timeout_s,
            memory_mib=settings.memory_mib,
            try_timeout_s=settings.try_timeout_s,
            failed_store=str(run.failed_jobs),
            bugs=scenario.bugs,
            code_version=CODE_VERSION,
        )
    except SettingError as error:
        raise UsageError(str(error)) from None
    config = SupervisorConfig(
        app=jobs.app,
        workers=scenario.workers,
        worker=worker,
        state_dir=str(run.state_of(name)),
        shutdown_grace_s=settings.shutdown_grace_s,
        restart_backoff_s=settings.restart_backoff_s,
        restart_backoff_max_s=settings.restart_backoff_max_s,
        stable_after_s=settings.stable_after_s,
        not_consuming_after_s=settings.not_consuming_after_s,
        renewal=renewal_settings(settings.retry_after_s, scenario.nodes),
        prefork=True,
        die_with_parent=True,
        parent_pid=os.getpid(),
        bugs=scenario.bugs,
    )
    for problem in find_problems(config):
        raise UsageError(problem)
    return config


def write_config(path: Path, config: NodeConfig | SupervisorConfig) -> None:
    """Write a configuration as JSON for people to read, too."""
    path.write_bytes(msgspec.json.format(msgspec.json.encode(config), indent=2) + b"\n")
