"""One pool that grows and shrinks: its queues, its crews, and what sizes it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import msgspec

from ..bugs import Bugs
from ..jobs.settings import WorkerSettings
from .config import SupervisorConfig
from .core.pool import Circuit, Pool
from .core.scaling import Scaler
from .core.scaling_policy import Strategy
from .crew import Crew
from .pool_config import PoolConfig
from .records import PoolStatus


@dataclass(slots=True, eq=False)
class SizedPool:
    """A pool of the master.

    Attributes:
        config: What it is told.
        scaler: Decides its size.
        crews: Its workers, one crew for each place.
        scope: Name of what it shares with other supervisors.
        depths: What its queues held at the last look; empty when they could not be read.
    """

    config: PoolConfig
    scaler: Scaler
    crews: tuple[Crew, ...]
    scope: str = ""
    depths: dict[str, int] = field(default_factory=dict)

    @property
    def group(self) -> str:
        """The consumer group of its workers."""
        return self.config.worker.consumer_group

    def status(self) -> PoolStatus:
        """Return what the status file says of it."""
        circuits = {crew.pool.circuit for crew in self.crews}
        order = (Circuit.OPEN, Circuit.PROBING, Circuit.CLOSED)
        return PoolStatus(
            name=self.config.name,
            target=sum(self.scaler.target or ()),
            active=sum(crew.pool.active for crew in self.crews),
            draining=sum(crew.pool.draining for crew in self.crews),
            circuit=next(circuit for circuit in order if circuit in circuits).value,
            depths=self.depths,
        )


def build_crews(
    config: SupervisorConfig, fill: Callable[[WorkerSettings], WorkerSettings], bugs: Bugs
) -> tuple[list[Crew], list[SizedPool]]:
    """Return the crews of a configuration, and its pools that grow and shrink.

    Args:
        config: The supervisor's settings.
        fill: Adds to a worker's settings what is the master's own.
        bugs: Planted defects.
    """
    if isinstance(config.pools, msgspec.UnsetType):
        pool = Pool(config.workers, config.restart_policy(), bugs=bugs)
        return [Crew("", pool, fill(config.worker), is_preforked=config.prefork)], []
    listens = not isinstance(config.control, msgspec.UnsetType) and config.control.event_driven
    pools = [_build_pool(pool, fill, bugs, listens) for pool in config.pools]
    return [crew for pool in pools for crew in pool.crews], pools


def _build_pool(
    config: PoolConfig,
    fill: Callable[[WorkerSettings], WorkerSettings],
    bugs: Bugs,
    listens: bool,
) -> SizedPool:
    policy = config.scaling.policy(len(config.queues))
    crews = []
    for queue in config.queues[: policy.places]:
        settings = msgspec.structs.replace(
            config.worker,
            queue=queue,
            queues=config.queues if policy.places < len(config.queues) else (),
            telemetry=policy.strategy is Strategy.TIME,
        )
        name = f"{config.name}/{queue}"
        slots = Pool(0, config.restart_policy(), bugs=bugs)
        crews.append(Crew(name, slots, fill(settings), config.prefork, config.force))
    return SizedPool(config, Scaler(policy, listens=listens), tuple(crews))
