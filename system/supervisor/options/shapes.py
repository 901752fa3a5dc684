"""Every option, its type, its bounds and its default."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from ...client import SecurityFiles
from ...jobs.settings import PARTITIONS_MAX, PREFETCH_MAX

PROCESS_LIMIT_MAX = 4096
DAY_S = 86_400.0

Seconds = Annotated[float, Meta(ge=0)]
Duration = Annotated[float, Meta(gt=0)]
Count = Annotated[int, Meta(ge=0)]
Number = Annotated[int, Meta(ge=1)]
Text = Annotated[str, Meta(min_length=1)]


class MasterOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options of the master.

    Attributes:
        app: `module:attribute`, an `Application` or a callable that returns one.
        state_dir: Where the supervisor keeps its files, private to one master.
        poll_interval_s: Time between two looks at the queues.
        http_timeout_s: Longest wait for one node's answer to the master.
        control_ttl_s: How long a control request stays valid.
        heartbeat_timeout_s: Age at which a status counts as dead; none: what the loop may take.
        shutdown_grace_s: How long a stop waits for running jobs; none: the longest timeout + 15.
        process_limit: Workers of all pools at most.
        telemetry_ttl_s: How long an observed duration of jobs counts.
        boot_timeout_s: Longest time for the application to load.
        remote_status: Whether the status is published through the broker.
        prefork: Whether workers are forked from a process that has loaded the application; if not,
            each loads it itself.
        event_driven: Whether new messages wake pools between polls.
        lease_service: Whether the master renews leases.
        coordination: Whether replicas share their targets.
    """

    app: Text = ""
    state_dir: Text = ""
    poll_interval_s: Duration = 3.0
    http_timeout_s: Duration = 5.0
    control_ttl_s: Annotated[float, Meta(ge=30, le=DAY_S)] = 3600.0
    heartbeat_timeout_s: Annotated[float, Meta(gt=0, le=DAY_S)] | None = None
    shutdown_grace_s: Duration | None = 75.0
    process_limit: Annotated[int, Meta(ge=1, le=PROCESS_LIMIT_MAX)] = 256
    telemetry_ttl_s: Duration = 300.0
    boot_timeout_s: Duration = 60.0
    remote_status: bool = False
    prefork: bool = False
    event_driven: bool = False
    lease_service: bool = True
    coordination: bool = False


class DriverOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options of the connection that all pools share.

    Attributes:
        endpoints: The broker's nodes, `host:port`.
        consumer_group: Group that the workers pop as.
        partitions: Stripes that a queue is spread over; a pop asks for 64 at most.
        prefetch: Jobs asked for in one pop, or `auto`.
        ack_batch: Finished jobs that are acknowledged together.
        ack_async: Put an ack on the wire and start the next job before its answer.
        pop_ahead: Ask for the next batch while the last job of a full one runs.
        block_for_s: How long an idle pop waits at the broker.
        bulk_batch: Jobs of a bulk dispatch in one request; none: the application's.
        after_commit: Whether a dispatch waits for the surrounding transaction; none: the
            application's.
        request_tries: Tries of one request.
        request_waits_s: Pauses before the second, third, … try.
        request_timeout_s: How long one try may take.
        lease_renewal: Whether leases are renewed while their jobs run.
        renewal_interval_s: Time between renewals; none: a third of the shortest `retry_after_s`.
        renewal_timeout_s: Longest wait for one node's answer to a renewal.
        renewal_grace_s: Time from SIGTERM to SIGKILL of a worker whose lease cannot be kept.
        renewal_margin_s: Such a worker is dead this long before its lease ends.
        failed_store: SQLite file of jobs that were given up; none: the application's.
        authority: PEM file that vouches for the nodes; none speaks without TLS.
        certificate: PEM file to show to the nodes.
        key: Its private key.
        passphrase_file: What the key is encrypted with.
        token_file: The bearer token.
    """

    endpoints: Annotated[tuple[Text, ...], Meta(min_length=1)] = ("127.0.0.1:6632",)
    consumer_group: Text = "jobs"
    partitions: Annotated[int, Meta(ge=1, le=PARTITIONS_MAX)] = 64
    prefetch: Annotated[int, Meta(ge=1, le=PREFETCH_MAX)] | Literal["auto"] = 1
    ack_batch: Number = 1
    ack_async: bool = False
    pop_ahead: bool = False
    block_for_s: Seconds = 0.0
    bulk_batch: Number | None = None
    after_commit: bool | None = None
    request_tries: Number = 3
    request_waits_s: tuple[Seconds, ...] = (1.0, 2.0)
    request_timeout_s: Duration = 30.0
    lease_renewal: bool = False
    renewal_interval_s: Duration | None = None
    renewal_timeout_s: Duration = 5.0
    renewal_grace_s: Seconds = 2.0
    renewal_margin_s: Seconds = 1.0
    failed_store: Text | None = None
    authority: Text | None = None
    certificate: Text | None = None
    key: Text | None = None
    passphrase_file: Text | None = None
    token_file: Text | None = None


class PoolOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options of one pool.

    Attributes:
        queues: What it serves, in order.
        balance: How workers meet queues; see `core.scaling_policy.Balance`.
        strategy: What a backlog is measured in; see `core.scaling_policy.Strategy`.
        min_processes: Workers while there is nothing to do.
        max_processes: Workers at most.
        processes: Workers of a simple pool; none: `max_processes`.
        min_processes_per_queue: Workers that every queue keeps.
        target_jobs_per_process: Backlog that one worker is meant for.
        target_clear_s: Time in which the backlog should be worked off.
        default_runtime_s: A job's duration while none has been seen.
        balance_cooldown_s: Time between two evaluations.
        balance_max_shift: Workers that one evaluation may move.
        fast_scale_up: Whether growth takes half of what is missing at once.
        scale_down_delay_s: How long a lower target must hold.
        restart_backoff_s: Delay after a crash; doubles with each further one in a row.
        restart_backoff_max_s: The longest delay, and how long an open circuit waits.
        stable_after_s: A worker that ran this long is healthy.
        sleep_s: Pause after an empty pop that did not wait.
        timeout_s: Timeout of a job that names none; 0 is none.
        retry_after_s: Lease of a popped batch.
        tries: Tries of a job that names none; 0 is unlimited.
        memory_mib: Resident memory after which a worker is replaced; 0 is unlimited.
        backoff_s: Pauses before the second, third, … try; the last one repeats.
        max_jobs: Jobs after which a worker is replaced; 0 is unlimited.
        max_time_s: Seconds after which a worker is replaced; 0 is unlimited.
        rest_s: Pause after every job.
        force: Whether jobs run in maintenance, too.
        quiet: Whether workers print nothing about jobs.
        prefork: See `MasterOptions`; none: the master's.
    """

    queues: Annotated[tuple[Text, ...], Meta(min_length=1)] = ("jobs",)
    balance: Literal["auto", "simple", "off"] = "auto"
    strategy: Literal["size", "time"] = "size"
    min_processes: Count = 1
    max_processes: Number = 10
    processes: Number | None = None
    min_processes_per_queue: Count = 0
    target_jobs_per_process: Number = 10
    target_clear_s: Duration = 60.0
    default_runtime_s: Duration = 1.0
    balance_cooldown_s: Seconds = 3.0
    balance_max_shift: Number = 1
    fast_scale_up: bool = False
    scale_down_delay_s: Seconds = 10.0
    restart_backoff_s: Duration = 1.0
    restart_backoff_max_s: Duration = 30.0
    stable_after_s: Duration = 60.0
    sleep_s: Seconds = 1.0
    timeout_s: Seconds = 60.0
    retry_after_s: Annotated[float, Meta(ge=1)] = 90.0
    tries: Count = 3
    memory_mib: Count = 128
    backoff_s: tuple[Seconds, ...] = (0.0,)
    max_jobs: Count = 0
    max_time_s: Seconds = 0.0
    rest_s: Seconds = 0.0
    force: bool = False
    quiet: bool = True
    prefork: bool | None = None

    @property
    def size_max(self) -> int:
        """Workers that it may have."""
        return (
            (self.processes or self.max_processes)
            if self.balance == "simple"
            else (self.max_processes)
        )


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """All options of one supervisor.

    Attributes:
        master: The master's.
        driver: The connection's.
        pools: Each pool's, by name, in order of declaration.
    """

    master: MasterOptions
    driver: DriverOptions
    pools: dict[str, PoolOptions]


def security_files(driver: DriverOptions) -> SecurityFiles | None:
    """Return what a guarded broker asks for; None when nothing is named."""
    files = SecurityFiles(
        authority=driver.authority,
        certificate=driver.certificate,
        key=driver.key,
        passphrase_file=driver.passphrase_file,
        token_file=driver.token_file,
    )
    return None if files == SecurityFiles() else files
