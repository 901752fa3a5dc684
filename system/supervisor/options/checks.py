"""What options may not be together: one line each, and a warning where it is only unwise."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from ...client import SecurityFilesError, load_security
from ...jobs.prefetching import AUTO_MAX
from ..core.renewal import RETRY_US
from .budget import (
    heartbeat_timeout_s,
    loop_budget_s,
    renewal_interval_s,
    shutdown_grace_s,
)
from .shapes import DAY_S, Options, PoolOptions, security_files

Finding = tuple[tuple[str, ...], str]
"""The paths of the options that are looked at, and the line."""

_RETRY_S: Final = RETRY_US / 1e6


def find_conflicts(options: Options) -> Iterator[Finding]:
    """Yield what is refused."""
    yield from _check_master(options)
    yield from _check_driver(options)
    for name, pool in options.pools.items():
        yield from _check_size(f"pools.{name}", pool)
        yield from _check_times(f"pools.{name}", pool, options)


def find_doubts(options: Options) -> Iterator[Finding]:
    """Yield what is taken, but probably not meant."""
    driver = options.driver
    if not (is_prefetching(options) or driver.pop_ahead):
        return
    cause = "prefetch" if is_prefetching(options) else "pop_ahead"
    for name, pool in options.pools.items():
        if pool.tries == 1:
            path = f"pools.{name}.tries"
            yield (
                (path, f"driver.{cause}"),
                f"{path} is 1 with driver.{cause} on: a job that was only prefetched when its "
                "worker's node was lost has had its one try",
            )


def is_prefetching(options: Options) -> bool:
    """Whether a pop may bring more than one job."""
    prefetch = options.driver.prefetch
    return prefetch == "auto" or prefetch > 1


def _check_master(options: Options) -> Iterator[Finding]:
    master = options.master
    module, colon, attribute = master.app.partition(":")
    if not (module and colon and attribute):
        yield ("master.app",), f"master.app is {master.app!r}; want module:attribute"
    if not master.state_dir:
        yield ("master.state_dir",), "master.state_dir is empty; name a directory"
    size = sum(pool.size_max for pool in options.pools.values())
    sizes = tuple(f"pools.{name}.max_processes" for name in options.pools)
    if size > master.process_limit:
        yield (
            ("master.process_limit", *sizes),
            f"master.process_limit is {master.process_limit}; the pools may have {size} workers",
        )
    budget_s = loop_budget_s(options)
    paths = ("master.poll_interval_s", "master.http_timeout_s", "driver.endpoints", *sizes)
    for name, value_s in (
        ("control_ttl_s", master.control_ttl_s),
        ("heartbeat_timeout_s", heartbeat_timeout_s(options)),
    ):
        if value_s < budget_s:
            yield (
                (f"master.{name}", *paths),
                f"master.{name} is {value_s:g}; one round of the master may take {budget_s:g}",
            )
    if master.heartbeat_timeout_s is None and heartbeat_timeout_s(options) > DAY_S:
        yield (
            ("master.heartbeat_timeout_s", *paths),
            f"one round of the master may take {budget_s:g} s; allowed: {DAY_S:g} with its margin",
        )
    grace_s = shutdown_grace_s(master, options)
    for name, pool in options.pools.items():
        if grace_s <= pool.timeout_s:
            yield (
                ("master.shutdown_grace_s", f"pools.{name}.timeout_s"),
                f"master.shutdown_grace_s is {grace_s:g}; it must exceed pools.{name}.timeout_s, "
                f"{pool.timeout_s:g}",
            )


def _check_driver(options: Options) -> Iterator[Finding]:
    driver, renewal = options.driver, "driver.lease_renewal"
    if is_prefetching(options) and not driver.lease_renewal:
        yield (
            ("driver.prefetch", renewal),
            f"driver.prefetch is {driver.prefetch}; more than 1 needs {renewal}",
        )
    if driver.pop_ahead and not driver.lease_renewal:
        yield ("driver.pop_ahead", renewal), f"driver.pop_ahead is true; it needs {renewal}"
    if driver.ack_async and driver.ack_batch > 1:
        yield (
            ("driver.ack_batch", "driver.ack_async"),
            f"driver.ack_batch is {driver.ack_batch}; with driver.ack_async only 1 is allowed",
        )
    most = AUTO_MAX if driver.prefetch == "auto" else driver.prefetch
    if driver.ack_batch > most:
        yield (
            ("driver.ack_batch", "driver.prefetch"),
            f"driver.ack_batch is {driver.ack_batch}; allowed: driver.prefetch at most, {most}",
        )
    if driver.lease_renewal and not options.master.lease_service:
        yield (
            ("master.lease_service", renewal),
            f"master.lease_service is false; {renewal} needs it: only the master renews",
        )
    try:
        load_security(security_files(driver))
    except SecurityFilesError as error:
        name = str(error).partition(":")[0]
        yield (f"driver.{name}",), f"driver.{error}"
    for endpoint in driver.endpoints:
        host, colon, port = endpoint.rpartition(":")
        is_port = port.isdecimal() and 0 < int(port) < 65536
        if not (host and colon and is_port) or "/" in host:
            yield (
                ("driver.endpoints",),
                f"driver.endpoints holds {endpoint!r}; want host:port",
            )


def _check_size(path: str, pool: PoolOptions) -> Iterator[Finding]:
    least, most = f"{path}.min_processes", f"{path}.max_processes"
    queues = len(pool.queues)
    if len(set(pool.queues)) < queues:
        yield (f"{path}.queues",), f"{path}.queues names a queue twice: {', '.join(pool.queues)}"
    if pool.min_processes > pool.max_processes:
        yield (
            (least, most),
            f"{least} is {pool.min_processes}; allowed: max_processes at most, "
            f"{pool.max_processes}",
        )
    if pool.balance_max_shift > pool.max_processes:
        yield (
            (f"{path}.balance_max_shift", most),
            f"{path}.balance_max_shift is {pool.balance_max_shift}; allowed: max_processes at "
            f"most, {pool.max_processes}",
        )
    if pool.balance == "auto":
        needed = queues * max(1, pool.min_processes_per_queue)
        if pool.max_processes < needed:
            yield (
                (most, f"{path}.queues", f"{path}.min_processes_per_queue"),
                f"{most} is {pool.max_processes}; {queues} queues need {needed} workers or more",
            )
    elif pool.min_processes_per_queue:
        yield (
            (f"{path}.min_processes_per_queue", f"{path}.balance"),
            f"{path}.min_processes_per_queue is {pool.min_processes_per_queue}; with balance "
            f"{pool.balance} only 0 is allowed",
        )
    if pool.restart_backoff_max_s < pool.restart_backoff_s:
        yield (
            (f"{path}.restart_backoff_max_s", f"{path}.restart_backoff_s"),
            f"{path}.restart_backoff_max_s is {pool.restart_backoff_max_s:g}; it must be at least "
            f"restart_backoff_s, {pool.restart_backoff_s:g}",
        )


def _check_times(path: str, pool: PoolOptions, options: Options) -> Iterator[Finding]:
    driver, lease = options.driver, f"{path}.retry_after_s"
    # The broker counts whole seconds of a lease.
    lease_s = int(pool.retry_after_s)
    has = "" if lease_s == pool.retry_after_s else f", which is a lease of {lease_s}"
    if lease_s <= pool.timeout_s:
        yield (
            (lease, f"{path}.timeout_s"),
            f"{lease} is {pool.retry_after_s:g}{has}; it must exceed timeout_s, {pool.timeout_s:g}",
        )
    if not driver.lease_renewal:
        return
    interval_s = renewal_interval_s(options)
    endpoints = len(driver.endpoints)
    needed_s = interval_s + 2 * driver.renewal_timeout_s * endpoints + _RETRY_S
    needed_s += driver.renewal_grace_s + driver.renewal_margin_s
    if needed_s >= lease_s:
        names = ("interval_s", "timeout_s", "grace_s", "margin_s")
        yield (
            (lease, "driver.endpoints", *(f"driver.renewal_{name}" for name in names)),
            f"{lease} is {pool.retry_after_s:g}{has}; it must exceed {needed_s:g}: renewal "
            f"interval {interval_s:g} + 2 × ({driver.renewal_timeout_s:g} × {endpoints} "
            f"endpoints) + {_RETRY_S:g} + grace {driver.renewal_grace_s:g} + margin "
            f"{driver.renewal_margin_s:g}",
        )
