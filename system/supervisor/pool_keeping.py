"""All that a master does for pools that grow and shrink; nothing when it has none."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import trio

from ..client import AsyncClient, ClientOptions, load_security
from .backlog_watch import BacklogWatch, lanes_of
from .config import SupervisorConfig
from .core.coordination import name_scope
from .core.membership import member_ttl_us
from .depths import DepthReader
from .fleet import Fleet
from .logbook import Logbook
from .pool_config import ControlConfig
from .records import PoolStatus
from .replicas import Replicas, ReplicaSettings
from .runtimes import RuntimeReader
from .sized_pool import SizedPool
from .sizing import Sizing
from .statedir import StateDirectory

_US = 1_000_000


class PoolKeeping:
    """Keeps the pools of one master at their sizes.

    Args:
        config: The supervisor's settings.
        pools: The pools, without workers yet.
        fleet: The workers.
        directory: The state directory.
        log: The master's log.
    """

    def __init__(
        self,
        config: SupervisorConfig,
        pools: Sequence[SizedPool],
        fleet: Fleet,
        directory: StateDirectory,
        log: Logbook,
    ) -> None:
        control = (
            ControlConfig() if isinstance(config.control, msgspec.UnsetType) else config.control
        )
        worker = config.worker
        security = load_security(worker.security)
        deadline_s = control.http_timeout_s * len(worker.endpoints)
        options = ClientOptions(
            control.http_timeout_s, deadline_s, tls=security.tls, bearer=security.bearer
        )
        self._pools = tuple(pools)
        self._client = AsyncClient(worker.client_endpoints(), options)
        replicas = _join(config, control, pools, self._client, deadline_s, log)
        self._sizing = Sizing(
            pools,
            control.poll_interval_s,
            fleet,
            DepthReader(self._client, deadline_s, log),
            RuntimeReader(directory.workers, round(control.telemetry_ttl_s * _US)),
            replicas,
            log,
        )
        self._watch: BacklogWatch | None = None
        if control.event_driven:
            lanes = [
                lane
                for pool in pools
                if pool.scaler.listens
                for lane in lanes_of(pool.config.queues, pool.config.worker.partitions)
            ]
            self._watch = BacklogWatch(self._client, lanes, deadline_s, self._sizing.wake, log)

    async def keep(self) -> None:
        """Size the pools until the fleet stops."""
        if not self._pools:
            return
        async with trio.open_nursery() as nursery:
            if self._watch is not None:
                nursery.start_soon(self._watch.keep)
            await self._sizing.keep()
            nursery.cancel_scope.cancel()

    def look(self) -> None:
        """Notice that the fleet was paused, continued or stopped."""
        self._sizing.look()

    def status(self) -> list[PoolStatus]:
        """Return what the status file says of the pools."""
        return [pool.status() for pool in self._pools]

    async def aclose(self) -> None:
        """Close the connections."""
        await self._client.aclose()


def _join(
    config: SupervisorConfig,
    control: ControlConfig,
    pools: Sequence[SizedPool],
    client: AsyncClient,
    deadline_s: float,
    log: Logbook,
) -> Replicas | None:
    """Return this master's part among its replicas, each pool's scope named; None when alone."""
    if not control.coordination:
        return None
    endpoints = [f"{host}:{port}" for host, port in config.worker.endpoints]
    scopes = []
    for pool in pools:
        if pool.config.scaling.balance == "simple":
            continue
        pool.scope = name_scope(endpoints, pool.group, pool.config.queues)
        scopes.append(pool.scope)
    ttl_us = member_ttl_us(round(config.heartbeat_timeout_s * _US), round(control.round_s * _US))
    return Replicas(client, scopes, ReplicaSettings(ttl_us, deadline_s), log)
