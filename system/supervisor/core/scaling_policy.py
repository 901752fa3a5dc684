"""What a pool is told about its own size: bounds, strategy, balance and pace."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Strategy(StrEnum):
    """What a backlog is measured in: jobs (`SIZE`), or the time that they take (`TIME`)."""

    SIZE = "size"
    TIME = "time"


class Balance(StrEnum):
    """How workers meet queues.

    `AUTO` sizes the pool by its backlog and spreads it over the queues by theirs, `SIMPLE` spreads
    a fixed number evenly, `OFF` sizes the pool and gives every worker the whole list of queues.
    """

    AUTO = "auto"
    SIMPLE = "simple"
    OFF = "off"


@dataclass(frozen=True, slots=True)
class ScalingPolicy:
    """Bounds and pace of one pool.

    Attributes:
        queues: How many queues it serves, in order of declaration.
        balance: How its workers are spread.
        strategy: What its backlog is measured in.
        min_processes: Workers of an idle pool.
        max_processes: Workers at most, draining ones included.
        processes: Workers of a `SIMPLE` pool.
        min_per_queue: Workers that every queue of an `AUTO` pool keeps.
        jobs_per_process: Backlog that one worker is meant for (`SIZE`).
        clear_us: Time in which the backlog should be worked off (`TIME`).
        default_runtime_us: A job's duration while none has been seen (`TIME`).
        cooldown_us: Time between two whole evaluations.
        max_shift: Workers that one evaluation may stop and start.
        fast_scale_up: Whether growth takes half of what is missing, rounded up, at once.
        scale_down_delay_us: How long one lower total must hold before workers go.
    """

    queues: int
    balance: Balance = Balance.AUTO
    strategy: Strategy = Strategy.SIZE
    min_processes: int = 1
    max_processes: int = 10
    processes: int = 10
    min_per_queue: int = 0
    jobs_per_process: int = 10
    clear_us: int = 60_000_000
    default_runtime_us: int = 1_000_000
    cooldown_us: int = 3_000_000
    max_shift: int = 1
    fast_scale_up: bool = False
    scale_down_delay_us: int = 10_000_000

    @property
    def places(self) -> int:
        """How many kinds of workers there are: one a queue, or one for the whole list."""
        return 1 if self.balance is Balance.OFF else self.queues

    @property
    def floor(self) -> int:
        """Workers that every place keeps."""
        return self.min_per_queue if self.balance is Balance.AUTO else 0

    @property
    def least(self) -> int:
        """Workers that the pool never goes below."""
        if self.balance is Balance.SIMPLE:
            return self.processes
        return max(self.min_processes, self.floor * self.places)

    @property
    def most(self) -> int:
        """Workers that the pool never goes above, draining ones included."""
        return self.processes if self.balance is Balance.SIMPLE else self.max_processes

    @property
    def is_elastic(self) -> bool:
        """Whether the backlog can change anything."""
        return self.least < self.most
