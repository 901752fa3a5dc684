"""Checked options made what the master is started with."""

from __future__ import annotations

from typing import Final

from ...jobs.settings import WorkerSettings
from ..config import RenewalSettings, SupervisorConfig
from ..pool_config import ControlConfig, PoolConfig, ScalingSettings
from .budget import heartbeat_timeout_s, loop_budget_s, renewal_interval_s, shutdown_grace_s
from .shapes import Options, PoolOptions, security_files

_UNUSED_SHARE: Final = 1 / 16


def build_config(options: Options) -> SupervisorConfig:
    """Return the configuration that checked options stand for."""
    master, driver = options.master, options.driver
    pools = tuple(_pool(name, pool, options) for name, pool in options.pools.items())
    # What hand-backs may take is counted by the shortest lease, so that it suits every pool.
    shortest = min(pools, key=lambda pool: pool.worker.retry_after_s)
    return SupervisorConfig(
        app=master.app,
        workers=sum(pool.size_max for pool in options.pools.values()),
        worker=shortest.worker,
        state_dir=master.state_dir,
        shutdown_grace_s=shutdown_grace_s(master, options),
        restart_backoff_s=shortest.restart_backoff_s,
        restart_backoff_max_s=shortest.restart_backoff_max_s,
        stable_after_s=shortest.stable_after_s,
        renewal=_renewal(options),
        boot_timeout_s=master.boot_timeout_s,
        heartbeat_timeout_s=heartbeat_timeout_s(options),
        control_ttl_s=master.control_ttl_s,
        die_with_parent=False,
        pools=pools,
        control=ControlConfig(
            poll_interval_s=master.poll_interval_s,
            http_timeout_s=master.http_timeout_s,
            event_driven=master.event_driven,
            telemetry_ttl_s=master.telemetry_ttl_s,
            lease_renewal=driver.lease_renewal,
            coordination=master.coordination,
            remote_status=master.remote_status,
            round_s=loop_budget_s(options),
        ),
    )


def _renewal(options: Options) -> RenewalSettings:
    driver, interval_s = options.driver, renewal_interval_s(options)
    if driver.lease_renewal:
        return RenewalSettings(
            interval_s=interval_s,
            timeout_s=driver.renewal_timeout_s,
            grace_s=driver.renewal_grace_s,
            margin_s=driver.renewal_margin_s,
        )
    # Nobody renews; the bounds only have to fit any lease.
    part_s = min(pool.retry_after_s for pool in options.pools.values()) * _UNUSED_SHARE
    return RenewalSettings(
        interval_s=4 * part_s,
        timeout_s=part_s / len(driver.endpoints),
        grace_s=0.0,
        margin_s=part_s,
    )


def _pool(name: str, pool: PoolOptions, options: Options) -> PoolConfig:
    return PoolConfig(
        name=name,
        queues=pool.queues,
        worker=_worker(pool, options),
        scaling=ScalingSettings(
            balance=pool.balance,
            strategy=pool.strategy,
            min_processes=pool.min_processes,
            max_processes=pool.max_processes,
            processes=pool.size_max,
            min_per_queue=pool.min_processes_per_queue,
            jobs_per_process=pool.target_jobs_per_process,
            clear_s=pool.target_clear_s,
            default_runtime_s=pool.default_runtime_s,
            cooldown_s=pool.balance_cooldown_s,
            max_shift=pool.balance_max_shift,
            fast_scale_up=pool.fast_scale_up,
            scale_down_delay_s=pool.scale_down_delay_s,
        ),
        restart_backoff_s=pool.restart_backoff_s,
        restart_backoff_max_s=pool.restart_backoff_max_s,
        stable_after_s=pool.stable_after_s,
        prefork=options.master.prefork if pool.prefork is None else pool.prefork,
        force=pool.force,
    )


def _worker(pool: PoolOptions, options: Options) -> WorkerSettings:
    driver = options.driver
    waits_s = driver.request_waits_s[: driver.request_tries - 1]
    if waits_s:
        waits_s += waits_s[-1:] * (driver.request_tries - 1 - len(waits_s))
    return WorkerSettings(
        queue=pool.queues[0],
        endpoints=tuple(_address(endpoint) for endpoint in driver.endpoints),
        state_dir=options.master.state_dir,
        consumer_group=driver.consumer_group,
        partitions=driver.partitions,
        prefetch=driver.prefetch,
        ack_async=driver.ack_async,
        ack_batch=driver.ack_batch,
        pop_ahead=driver.pop_ahead,
        retry_after_s=pool.retry_after_s,
        block_for_s=driver.block_for_s,
        sleep_s=pool.sleep_s,
        rest_s=pool.rest_s,
        tries=pool.tries,
        backoff_s=pool.backoff_s,
        timeout_s=pool.timeout_s,
        max_jobs=pool.max_jobs,
        max_time_s=pool.max_time_s,
        memory_mib=pool.memory_mib,
        quiet=pool.quiet,
        failed_store=driver.failed_store,
        try_timeout_s=driver.request_timeout_s,
        deadline_s=driver.request_tries * driver.request_timeout_s + sum(waits_s),
        security=security_files(driver),
        bulk_batch=driver.bulk_batch,
        after_commit=driver.after_commit,
    )


def _address(endpoint: str) -> tuple[str, int]:
    host, _, port = endpoint.rpartition(":")
    return host, int(port)
