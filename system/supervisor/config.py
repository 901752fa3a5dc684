"""What a supervisor is told at its start; every problem is found before anything else happens."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec

from ..bugs import BUGS, Bugs
from ..client import SecurityFilesError, load_security
from ..jobs.settings import WorkerSettings
from .core.control import TTL_S, TTL_S_MAX, TTL_S_MIN
from .core.handback import HandBackPolicy
from .core.pool import RestartPolicy
from .core.renewal import RETRY_US, RenewalPolicy
from .pool_config import ControlConfig, PoolConfig

WORKERS_MAX: Final = 4096
_US: Final = 1_000_000
_INTERVAL_SHARE: Final = 0.25
_HAND_BACK_US_MAX: Final = 3 * _US


class ConfigError(ValueError):
    """A configuration that no supervisor may start with.

    Attributes:
        problems: One line each; all that were found.
    """

    def __init__(self, problems: list[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems


class RenewalSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How leases are renewed.

    Attributes:
        interval_s: Time between renewals; None is a quarter of the lease.
        timeout_s: Longest wait for one node's answer.
        grace_s: Time from SIGTERM to SIGKILL of a worker whose lease cannot be kept.
        margin_s: Such a worker is dead this long before its lease ends.
    """

    interval_s: float | None = None
    timeout_s: float = 0.5
    grace_s: float = 1.0
    margin_s: float = 0.5


class SupervisorConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A supervisor's settings, as JSON in a file.

    Attributes:
        app: `module:attribute`, an `Application` or a callable that returns one.
        workers: How many workers run.
        worker: What each is set to; `state_dir` and `lease_socket` are the supervisor's own.
        state_dir: Where the supervisor keeps its files, private to one master.
        shutdown_grace_s: How long a stop waits for running jobs.
        restart_backoff_s: Delay after a crash; doubles with each further one in a row.
        restart_backoff_max_s: The longest delay, and how long an open circuit waits.
        stable_after_s: A worker that ran this long is healthy.
        renewal: How leases are renewed.
        hand_back_timeout_s: Longest duration of a crash hand-back; None is half of what is
            certainly left of a renewed lease, 3 s at most.
        boot_timeout_s: Longest time for the application to load.
        heartbeat_timeout_s: A status file older than this is no sign of life.
        control_ttl_s: How long a request to the supervisor may hold.
        not_consuming_after_s: A worker whose pops have failed for so long does not consume.
        prefork: Whether workers are forked from a process that has loaded the application; if not,
            each loads it itself. Of the pools, where there are any, each says so itself.
        die_with_parent: Be killed when the process that started this one dies.
        parent_pid: Who that process is; another parent means that it died already.
        bugs: Planted defects, for the supervisor and its workers.
        pools: Pools that grow and shrink; without any, `workers` workers of `worker` run. With
            some, `worker` is what the one with the shortest lease is set to.
        control: How the master sees to its pools.
    """

    app: str
    workers: int
    worker: WorkerSettings
    state_dir: str
    shutdown_grace_s: float = 75.0
    restart_backoff_s: float = 1.0
    restart_backoff_max_s: float = 30.0
    stable_after_s: float = 60.0
    renewal: RenewalSettings = RenewalSettings()
    hand_back_timeout_s: float | None = None
    boot_timeout_s: float = 60.0
    heartbeat_timeout_s: float = 15.0
    control_ttl_s: float = TTL_S
    not_consuming_after_s: float = 60.0
    prefork: bool = True
    die_with_parent: bool = True
    parent_pid: int | None = None
    bugs: tuple[str, ...] = ()
    pools: tuple[PoolConfig, ...] | msgspec.UnsetType = msgspec.UNSET
    control: ControlConfig | msgspec.UnsetType = msgspec.UNSET

    def renewal_policy(self) -> RenewalPolicy:
        """Return the bounds of renewal."""
        interval_s = self.renewal.interval_s
        if interval_s is None:
            interval_s = self.worker.retry_after_s * _INTERVAL_SHARE
        return RenewalPolicy(
            interval_us=_us(interval_s),
            timeout_us=_us(self.renewal.timeout_s),
            endpoints=len(self.worker.endpoints),
            grace_us=_us(self.renewal.grace_s),
            margin_us=_us(self.renewal.margin_s),
        )

    def restart_policy(self) -> RestartPolicy:
        """Return the delays of restarts and the bounds of the circuit."""
        return RestartPolicy(
            backoff_us=_us(self.restart_backoff_s),
            backoff_max_us=_us(self.restart_backoff_max_s),
            stable_after_us=_us(self.stable_after_s),
        )

    def hand_back_policy(self) -> HandBackPolicy:
        """Return the bounds of a hand-back."""
        renewal = self.renewal_policy()
        budget_us = min(_HAND_BACK_US_MAX, self.left_us() // 2)
        if self.hand_back_timeout_s is not None:
            budget_us = _us(self.hand_back_timeout_s)
        return HandBackPolicy(budget_us, renewal.margin_us)

    def left_us(self) -> int:
        """Return what is left of a lease just before its renewal, less the margin."""
        renewal = self.renewal_policy()
        return _us(self.worker.retry_after_s) - renewal.interval_us - renewal.margin_us

    def renews(self) -> bool:
        """Tell whether workers' leases are renewed."""
        return isinstance(self.control, msgspec.UnsetType) or self.control.lease_renewal

    def loads_once(self) -> bool:
        """Tell whether any worker is forked from the loaded application."""
        if isinstance(self.pools, msgspec.UnsetType):
            return self.prefork
        return any(pool.prefork for pool in self.pools)

    def planted(self) -> Bugs:
        """Return the planted defects that are on."""
        return frozenset(self.bugs)


def _us(seconds: float) -> int:
    return round(seconds * _US)


def find_problems(config: SupervisorConfig) -> Iterator[str]:
    """Yield what is wrong with a configuration, one line each."""
    module, colon, attribute = config.app.partition(":")
    if not (module and colon and attribute):
        yield f"app is {config.app!r}; want module:attribute"
    if not 1 <= config.workers <= WORKERS_MAX:
        yield f"workers is {config.workers}; allowed: 1 to {WORKERS_MAX}"
    if not config.state_dir:
        yield "state_dir is empty; name a directory"
    if not TTL_S_MIN <= config.control_ttl_s <= TTL_S_MAX:
        yield f"control_ttl_s is {config.control_ttl_s:g}; allowed: {TTL_S_MIN} to {TTL_S_MAX}"
    yield from _find_negative(config)
    if config.restart_backoff_max_s < config.restart_backoff_s:
        yield (
            f"restart_backoff_max_s is {config.restart_backoff_max_s:g}; it must be at least "
            f"restart_backoff_s, {config.restart_backoff_s:g}"
        )
    for name in (*config.bugs, *config.worker.bugs):
        if name not in BUGS:
            yield f"unknown bug {name!r}; choose from: {', '.join(sorted(BUGS))}"
    try:
        load_security(config.worker.security)
    except SecurityFilesError as error:
        yield f"worker.security.{error}"
    yield from _find_time_conflicts(config)


def _find_negative(config: SupervisorConfig) -> Iterator[str]:
    positive = (
        ("shutdown_grace_s", config.shutdown_grace_s),
        ("restart_backoff_s", config.restart_backoff_s),
        ("stable_after_s", config.stable_after_s),
        ("boot_timeout_s", config.boot_timeout_s),
        ("heartbeat_timeout_s", config.heartbeat_timeout_s),
        ("not_consuming_after_s", config.not_consuming_after_s),
        ("renewal.timeout_s", config.renewal.timeout_s),
    )
    for name, value in positive:
        if not value > 0:
            yield f"{name} is {value:g}; it must be above 0"
    for name, optional in (
        ("renewal.interval_s", config.renewal.interval_s),
        ("hand_back_timeout_s", config.hand_back_timeout_s),
    ):
        if optional is not None and not optional > 0:
            yield f"{name} is {optional:g}; it must be above 0"
    for name, value in (
        ("renewal.grace_s", config.renewal.grace_s),
        ("renewal.margin_s", config.renewal.margin_s),
    ):
        if not value >= 0:
            yield f"{name} is {value:g}; it must not be negative"


def _find_time_conflicts(config: SupervisorConfig) -> Iterator[str]:
    worker, policy = config.worker, config.renewal_policy()
    if config.shutdown_grace_s <= worker.timeout_s:
        yield (
            f"shutdown_grace_s is {config.shutdown_grace_s:g}; it must exceed worker.timeout_s, "
            f"{worker.timeout_s:g}"
        )
    needed_us = policy.interval_us + policy.reserve_us
    if needed_us >= _us(worker.retry_after_s):
        renewal = config.renewal
        yield (
            f"worker.retry_after_s is {worker.retry_after_s:g}; it must exceed "
            f"{needed_us / _US:g}: renewal interval {policy.interval_us / _US:g} + 2 × "
            f"({renewal.timeout_s:g} × {policy.endpoints} endpoints) + {RETRY_US / _US:g} + grace "
            f"{renewal.grace_s:g} + margin {renewal.margin_s:g}"
        )
    elif config.hand_back_policy().budget_us >= config.left_us():
        yield (
            f"hand_back_timeout_s is {config.hand_back_timeout_s:g}; it must be below "
            f"{config.left_us() / _US:g}, what is left of a lease before its renewal"
        )


def find_job_problems(config: SupervisorConfig, timeouts_s: dict[str, float]) -> list[str]:
    """Find jobs whose own timeouts do not fit, which only the loaded application knows."""
    found = []
    for name, timeout_s in timeouts_s.items():
        for setting, value_s in (
            ("worker.retry_after_s", config.worker.retry_after_s),
            ("shutdown_grace_s", config.shutdown_grace_s),
        ):
            if timeout_s >= value_s:
                found.append(
                    f"timeout_s of job {name!r} is {timeout_s:g}; it must be below {setting}, "
                    f"{value_s:g}"
                )
    return found


def load_config(path: Path) -> SupervisorConfig:
    """Read and check a configuration file.

    Raises:
        ConfigError: The file cannot be read, is no JSON of this shape, or holds wrong values.
    """
    try:
        text = path.read_bytes()
    except OSError as error:
        raise ConfigError([f"cannot read {path}: {error.strerror}"]) from None
    return parse_config(text)


class _Outer(msgspec.Struct):
    """A configuration whose worker part is not looked into yet."""

    state_dir: object = ""
    worker: dict[str, object] = {}


def parse_config(text: bytes) -> SupervisorConfig:
    """Check a configuration.

    Raises:
        ConfigError: All that is wrong with it.
    """
    try:
        whole = msgspec.json.decode(text, type=dict[str, object])
        outer = msgspec.convert(whole, _Outer)
    except msgspec.MsgspecError as error:
        raise ConfigError([f"configuration: {error}"]) from None
    filled = {**whole, "worker": {"state_dir": str(outer.state_dir), **outer.worker}}
    try:
        config = msgspec.convert(filled, SupervisorConfig)
    except msgspec.ValidationError as error:
        problem = f"configuration: {error}"
        raise ConfigError([problem, *_find_beside(filled)]) from None
    problems = list(find_problems(config))
    if problems:
        raise ConfigError(problems)
    return config


_PLAIN_WORKER: Final = WorkerSettings(
    queue="any", endpoints=(("127.0.0.1", 1),), state_dir="any", retry_after_s=1e9, timeout_s=0
)


def _find_beside(filled: dict[str, object]) -> list[str]:
    """Find what else is wrong when the worker's part alone cannot be read."""
    plain = {**filled, "worker": msgspec.to_builtins(_PLAIN_WORKER)}
    try:
        return list(find_problems(msgspec.convert(plain, SupervisorConfig)))
    except msgspec.ValidationError:
        return []
