"""The status of a supervisor in the broker's key/value store: written by it, read by anyone.

A supervisor's key is `PREFIX/INSTANCE` in the namespace of the replicas. It lives as long as a
status counts, so a supervisor that is gone without a word is listed no longer. A broker that
cannot be reached changes nothing here: the status file is the status, and this is a copy.
"""

from __future__ import annotations

import platform
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import msgspec
import trio

from ..client import AsyncClient, BrokerError, Call, ClientOptions, load_security
from ..client.keyvalue import KvAnswer, kv
from .checks import not_consuming
from .config import SupervisorConfig
from .core.membership import key_ttl_s, member_ttl_us
from .logbook import Logbook
from .records import PoolStatus, Status
from .replicas import NAMESPACE

PREFIX: Final = "status"
LISTED_MAX: Final = 100
WITHDRAW_S: Final = 2.0
FAILURE_LENGTH_MAX: Final = 500
_US: Final = 1_000_000
POOLS_MAX: Final = 64
"""A value is 64 KiB at most; of more pools only the first are told."""


class RemoteStatus(msgspec.Struct, frozen=True, kw_only=True):
    """What a supervisor tells of itself.

    Attributes:
        instance: This life of this master.
        host: Its host.
        master: Its pid there.
        wall_ns: Time of day at its host when this was written.
        ttl_s: How long this lives.
        state: See `Status`, as for all that follows.
        circuit: Likewise.
        maintenance: Likewise.
        desired: Likewise.
        code: Likewise.
        start_failure: Likewise.
        workers: How many workers do what.
        not_consuming: How many workers have got no answer to their pops for too long.
        pools: The pools that grow and shrink, `POOLS_MAX` at most.
    """

    instance: str
    host: str
    master: int
    wall_ns: int
    ttl_s: int
    state: str
    circuit: str
    maintenance: str
    desired: int
    code: int
    start_failure: str | None
    workers: dict[str, int]
    not_consuming: int
    pools: list[PoolStatus]
    v: int = 1

    @property
    def living(self) -> int:
        """How many workers there are."""
        return sum(self.workers.values())


@dataclass(frozen=True, slots=True)
class PublishSettings:
    """Bounds of publishing.

    Attributes:
        interval_s: Time between two times.
        ttl_s: How long a status lives.
        deadline_s: Longest time for one call, all nodes asked.
    """

    interval_s: float
    ttl_s: int
    deadline_s: float


def summarize(status: Status, host: str, wall_ns: int, ttl_s: int, failing: int) -> RemoteStatus:
    """Return what is published of a status.

    Args:
        status: What the status file says.
        host: Name of this host.
        wall_ns: The time of day.
        ttl_s: How long it is to live.
        failing: How many workers do not consume.
    """
    pools = [
        # Of a queue's depths only the sum: a pool may have any number of queues.
        msgspec.structs.replace(pool, depths={"": sum(pool.depths.values())} if pool.depths else {})
        for pool in status.pools[:POOLS_MAX]
    ]
    failure = status.start_failure
    return RemoteStatus(
        instance=status.instance,
        host=host,
        master=status.master,
        wall_ns=wall_ns,
        ttl_s=ttl_s,
        state=status.state,
        circuit=status.circuit,
        maintenance=status.maintenance,
        desired=status.desired,
        code=status.code,
        start_failure=failure and failure[:FAILURE_LENGTH_MAX],
        workers=dict(Counter(worker.state for worker in status.workers)),
        not_consuming=failing,
        pools=pools,
    )


class StatusPublisher:
    """Publishes one master's status, once a poll and when there is news.

    Args:
        client: Asks the broker.
        current: Returns the status.
        settings: Bounds.
        log: The master's log.
    """

    def __init__(
        self,
        client: AsyncClient,
        current: Callable[[], Status],
        settings: PublishSettings,
        log: Logbook,
    ) -> None:
        self._client = client
        self._current = current
        self._settings = settings
        self._log = log
        self._is_reached = True
        self._news = trio.Event()

    def look(self) -> None:
        """Notice that something was changed that is not to wait for the next time."""
        self._news.set()

    async def keep(self) -> None:
        """Publish every `interval_s`; runs for ever."""
        host = platform.node() or "localhost"
        while True:
            self._news = trio.Event()
            status = self._current()
            failing = len(not_consuming(status, time.monotonic_ns()))
            told = summarize(status, host, time.time_ns(), self._settings.ttl_s, failing)
            await self._ask({"op": "put", "value": told, "ttlSeconds": told.ttl_s})
            with trio.move_on_after(self._settings.interval_s):
                await self._news.wait()

    async def aclose(self) -> None:
        """Take the status away and close the connection; a silent broker holds up nobody."""
        with trio.move_on_after(WITHDRAW_S):
            await self._ask({"op": "delete"})
        await self._client.aclose()

    async def _ask(self, operation: dict[str, object]) -> None:
        key = f"{PREFIX}/{self._current().instance}"
        call = kv([{"ns": NAMESPACE, "key": key, **operation}])
        try:
            await self._client.call(call, deadline_s=self._settings.deadline_s)
        except BrokerError as error:
            if self._is_reached:
                self._log.warning("status not published", error=str(error))
            self._is_reached = False
        else:
            self._is_reached = True


def open_publisher(
    config: SupervisorConfig, current: Callable[[], Status], log: Logbook
) -> StatusPublisher | None:
    """Return what publishes a master's status, or None where it is not to be published."""
    control = config.control
    if isinstance(control, msgspec.UnsetType) or not control.remote_status:
        return None
    endpoints = config.worker.client_endpoints()
    deadline_s = control.http_timeout_s * len(endpoints)
    security = load_security(config.worker.security)
    options = ClientOptions(
        control.http_timeout_s, deadline_s, tls=security.tls, bearer=security.bearer
    )
    ttl_us = member_ttl_us(round(config.heartbeat_timeout_s * _US), round(control.round_s * _US))
    settings = PublishSettings(control.poll_interval_s, key_ttl_s(ttl_us), deadline_s)
    return StatusPublisher(AsyncClient(endpoints, options), current, settings, log)


def list_call() -> Call[tuple[KvAnswer, ...]]:
    """The call that lists every published status."""
    listing = {"op": "getPrefix", "ns": NAMESPACE, "prefix": f"{PREFIX}/", "limit": LISTED_MAX}
    return kv([listing])


def read_listing(answers: Sequence[KvAnswer]) -> tuple[list[RemoteStatus], list[str]]:
    """Read what `list_call` brought.

    Returns:
        The statuses by host and pid, and the keys whose values are none.
    """
    found: list[RemoteStatus] = []
    strange: list[str] = []
    for row in answers[0].rows if answers else ():
        try:
            found.append(msgspec.json.decode(row.value, type=RemoteStatus))
        except msgspec.DecodeError:
            strange.append(row.key)
    return sorted(found, key=lambda seen: (seen.host, seen.master)), strange


def age_s(seen: RemoteStatus, now_ns: int | None = None) -> float:
    """Return how old a status is, seconds, by the time of day here; hosts' clocks may differ."""
    return ((time.time_ns() if now_ns is None else now_ns) - seen.wall_ns) / 1e9
