"""What a connection and a worker are set to, as values that travel as JSON."""

from __future__ import annotations

from typing import Final, Literal

import msgspec

from ..client import ClientOptions, Endpoint, SecurityFiles, load_security
from .prefetching import AUTO_MAX

PARTITIONS_MAX: Final = 1024
POP_PARTITIONS_MAX: Final = 64
PREFETCH_MAX: Final = 1000
IDLE_S_MIN: Final = 0.1


class SettingError(ValueError):
    """A setting that cannot work; the message names it, its value and what is allowed."""


def _require(condition: bool, text: str) -> None:
    if not condition:
        raise SettingError(text)


class ConnectionSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where an application's jobs live.

    Attributes:
        endpoints: Client addresses of the broker's nodes, `(host, port)`.
        queue: Queue name.
        partitions: Stripes a job without its own ordering key is spread over.
        consumer_group: Group that the workers pop as.
        retry_after_s: Lease of a popped batch; must exceed every job's timeout.
        try_timeout_s: How long one try of a request may take.
        deadline_s: How long a request is retried in all.
        security: What a guarded broker asks for.
        bulk_batch: Jobs of a bulk dispatch in one request, at most.
        after_commit: Whether a dispatch in an open transaction of the application waits for its
            commit, unless it says otherwise itself; see `after_commit`.
    """

    endpoints: tuple[tuple[str, int], ...]
    queue: str = "jobs"
    partitions: int = 64
    consumer_group: str = "jobs"
    retry_after_s: float = 90.0
    try_timeout_s: float = 5.0
    deadline_s: float = 30.0
    security: SecurityFiles | None = None
    bulk_batch: int = 100
    after_commit: bool = False

    def __post_init__(self) -> None:
        """Refuse values that cannot work.

        Raises:
            SettingError: Names the value and what is allowed.
        """
        _check_queue(self.endpoints, self.queue, self.partitions, self.consumer_group)
        _require_bulk_batch(self.bulk_batch)

    def client_endpoints(self) -> tuple[Endpoint, ...]:
        """The nodes as the client wants them."""
        return tuple(Endpoint(host, port) for host, port in self.endpoints)

    def client_options(self) -> ClientOptions:
        """The retry rules as the client wants them, and what its files hold.

        Raises:
            SecurityFilesError: One of the files cannot be used.
        """
        security = load_security(self.security)
        return ClientOptions(
            self.try_timeout_s, self.deadline_s, tls=security.tls, bearer=security.bearer
        )


class WorkerSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How one worker consumes.

    Attributes:
        queue: Queue name.
        queues: Several queues in order of importance, `queue` first; empty when there is one.
        endpoints: Client addresses of the broker's nodes, `(host, port)`.
        state_dir: Where journal and exit marker lie; private to the supervisor.
        consumer_group: Group that the worker pops as.
        partitions: Partitions the queue is spread over; one pop claims 64 of them at most.
        prefetch: Jobs asked for in one pop, 1 to 1000; `auto` follows how long jobs take.
        ack_async: Put a finished job's ack on the wire and start the next job before its answer.
        ack_batch: Finished jobs acked in one request; see `ack_batching`.
        pop_ahead: Ask for the next batch while the last job of a full batch runs.
        retry_after_s: Lease of a popped batch, at least 1; the broker counts whole seconds of it.
        block_for_s: How long an idle pop waits at the broker, but a quarter of the lease at most.
        sleep_s: Pause after an empty pop that did not wait.
        rest_s: Pause after every job; its lease is renewed meanwhile.
        tries: Tries of a job that says nothing itself; 0 is unlimited.
        backoff_s: Pauses before the second, third, … try; the last one repeats.
        timeout_s: Timeout of a job that says nothing itself; 0 is none.
        max_jobs: Jobs after which the worker ends; 0 is unlimited.
        max_time_s: Seconds after which the worker ends; 0 is unlimited.
        memory_mib: Resident memory after which the worker ends; 0 is unlimited.
        lease_socket: The master's lease channel; None when nobody renews.
        failed_store: SQLite file of jobs that were given up; None uses the application's.
        try_timeout_s: How long one try of a request may take, but a quarter of the lease at most.
        deadline_s: How long an ack or a release is retried in all.
        settle_timeout_s: How long a stopping worker waits for one answer.
        quiet: Print nothing about jobs; see `narration`.
        telemetry: Tell the supervisor how long jobs take; see `runtimes`.
        bugs: Planted defects.
        code_version: Passed through for the application's records.
        security: What a guarded broker asks for; the files are read when a worker starts.
        bulk_batch: Of the application's connections, for what its jobs dispatch; None leaves it.
        after_commit: Likewise.
    """

    queue: str
    endpoints: tuple[tuple[str, int], ...]
    state_dir: str
    queues: tuple[str, ...] = ()
    consumer_group: str = "jobs"
    partitions: int = 64
    prefetch: int | Literal["auto"] = 1
    ack_async: bool = False
    ack_batch: int = 1
    pop_ahead: bool = False
    retry_after_s: float = 90.0
    block_for_s: float = 0.0
    sleep_s: float = 1.0
    rest_s: float = 0.0
    tries: int = 3
    backoff_s: tuple[float, ...] = ()
    timeout_s: float = 60.0
    max_jobs: int = 0
    max_time_s: float = 0.0
    memory_mib: int = 0
    lease_socket: str | None = None
    failed_store: str | None = None
    try_timeout_s: float = 5.0
    deadline_s: float = 30.0
    settle_timeout_s: float = 2.0
    quiet: bool = True
    telemetry: bool = False
    bugs: tuple[str, ...] = ()
    code_version: str = ""
    security: SecurityFiles | None = None
    bulk_batch: int | None = None
    after_commit: bool | None = None

    def __post_init__(self) -> None:
        """Refuse values that cannot work.

        Raises:
            SettingError: Names the value and what is allowed.
        """
        _check_queue(self.endpoints, self.queue, self.partitions, self.consumer_group)
        _require(
            self.prefetch == "auto" or 1 <= self.prefetch <= PREFETCH_MAX,
            f"prefetch is {self.prefetch}; allowed: 1 to {PREFETCH_MAX}, or auto",
        )
        _require(
            1 <= self.ack_batch <= self.prefetch_max,
            f"ack_batch is {self.ack_batch}; allowed: 1 to prefetch, {self.prefetch_max}",
        )
        _require(
            self.ack_batch == 1 or not self.ack_async,
            f"ack_batch is {self.ack_batch}; with ack_async only 1 is allowed",
        )
        _require(
            self.retry_after_s > self.timeout_s,
            f"retry_after_s is {self.retry_after_s:g}; it must exceed timeout_s {self.timeout_s:g}",
        )
        _require(
            self.retry_after_s >= 1, f"retry_after_s is {self.retry_after_s:g}; allowed: 1 or more"
        )
        _require_bulk_batch(self.bulk_batch)
        for name in ("try_timeout_s", "deadline_s", "settle_timeout_s"):
            value = float(getattr(self, name))
            _require(value > 0, f"{name} is {value:g}; it must be above 0")
        for name in (
            "block_for_s",
            "sleep_s",
            "rest_s",
            "tries",
            "timeout_s",
            "max_jobs",
            "max_time_s",
            "memory_mib",
        ):
            value = float(getattr(self, name))
            _require(value >= 0, f"{name} is {value:g}; it must not be negative")
        _require(
            not self.queues or self.queues[0] == self.queue,
            f"queues begins with {self.queues[:1]}; it must begin with queue, {self.queue!r}",
        )
        _require(
            all(self.queues) and len(set(self.queues)) == len(self.queues),
            f"queues is {self.queues}; want names, each once",
        )

    @property
    def idle_s(self) -> float:
        """Pause after pops that found nothing; with several queues never too short."""
        return max(self.sleep_s, IDLE_S_MIN) if self.queues else self.sleep_s

    @property
    def prefetch_max(self) -> int:
        """Jobs that a pop asks for at most."""
        return AUTO_MAX if self.prefetch == "auto" else self.prefetch

    @property
    def lease_s(self) -> int:
        """Lease that a pop asks for, whole seconds."""
        return int(self.retry_after_s)

    def client_endpoints(self) -> tuple[Endpoint, ...]:
        """The nodes as the client wants them."""
        return tuple(Endpoint(host, port) for host, port in self.endpoints)


def _require_bulk_batch(bulk_batch: int | None) -> None:
    _require(
        bulk_batch is None or bulk_batch >= 1, f"bulk_batch is {bulk_batch}; allowed: 1 or more"
    )


def _check_queue(
    endpoints: tuple[tuple[str, int], ...], queue: str, partitions: int, consumer_group: str
) -> None:
    _require(bool(endpoints), "endpoints is empty; name at least one node")
    _require(bool(queue), "queue is empty; name a queue")
    _require(bool(consumer_group), "consumer_group is empty; name a group")
    _require(
        1 <= partitions <= PARTITIONS_MAX,
        f"partitions is {partitions}; allowed: 1 to {PARTITIONS_MAX}",
    )
