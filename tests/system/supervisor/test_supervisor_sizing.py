"""The loop that sizes pools, before a stub of the broker and a fleet without processes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, cast

import pytest
import trio
from trio.testing import MockClock

from atleastonce.system.jobs.settings import WorkerSettings
from atleastonce.system.supervisor import sizing as module
from atleastonce.system.supervisor.config import SupervisorConfig
from atleastonce.system.supervisor.core.coordination import View
from atleastonce.system.supervisor.depths import WAVE, DepthReader
from atleastonce.system.supervisor.fleet import Fleet
from atleastonce.system.supervisor.logbook import Logbook
from atleastonce.system.supervisor.pool_config import ControlConfig, PoolConfig, ScalingSettings
from atleastonce.system.supervisor.replicas import Replicas
from atleastonce.system.supervisor.runtimes import RuntimeReader
from atleastonce.system.supervisor.sized_pool import SizedPool, build_crews
from atleastonce.system.supervisor.sizing import Sizing
from atleastonce.system.supervisor.statedir import StateDirectory

from .stub_broker import StubBroker

LOG = Logbook("test", 2)
Play = Callable[[Sizing, Fleet, StubBroker], Awaitable[None]]


class StubReplicas:
    """Others that share: who, and what was asked of them."""

    def __init__(self, view: View | None) -> None:
        self.seen = view
        self.calls: list[str] = []
        self.absent: set[str] = set()

    def view(self, scope: str) -> View | None:
        return self.seen

    async def heartbeat(self) -> bool:
        self.calls.append("heartbeat")
        return True

    async def leave(self) -> bool:
        self.calls.append("leave")
        return True


def settings(
    tmp_path: Path, queues: tuple[str, ...], listens: bool, **scaling: Any
) -> SupervisorConfig:
    worker = WorkerSettings(queue="mail", endpoints=(("h", 1),), state_dir=str(tmp_path))
    pool = PoolConfig(name="pool", queues=queues, worker=worker, scaling=ScalingSettings(**scaling))
    return SupervisorConfig(
        app="a:b",
        workers=10,
        worker=worker,
        state_dir=str(tmp_path),
        pools=(pool,),
        control=ControlConfig(event_driven=listens),
    )


def sized(
    tmp_path: Path,
    broker: StubBroker,
    play: Play,
    *,
    queues: tuple[str, ...] = ("mail", "news"),
    replicas: StubReplicas | None = None,
    listens: bool = False,
    monkeypatch: pytest.MonkeyPatch,
    **scaling: Any,
) -> SizedPool:
    """Play something before the loop in virtual time; return its pool."""
    crews, pools = build_crews(
        settings(tmp_path, queues, listens, **scaling), lambda w: w, frozenset()
    )
    pools[0].scope = "scope"
    fleet = Fleet(crews, StateDirectory(tmp_path), frozenset(), LOG, lambda: None)
    monkeypatch.setattr(module, "now_us", lambda: round(trio.current_time() * 1e6))

    async def go() -> None:
        reader = DepthReader(broker.client, 1.0, LOG)
        shared = cast(Replicas, replicas) if replicas is not None else None
        runtimes = RuntimeReader(tmp_path, 300_000_000)
        loop = Sizing(pools, 3.0, fleet, reader, runtimes, shared, LOG)
        with trio.fail_after(1000):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(loop.keep)
                await play(loop, fleet, broker)
                fleet.stop()
                loop.look()

    trio.run(go, clock=MockClock(autojump_threshold=0))
    return pools[0]


def active(pool: SizedPool) -> list[int]:
    return [crew.pool.active for crew in pool.crews]


async def wait(seconds: float) -> None:
    await trio.sleep(seconds)


def test_each_poll_moves_one_worker_towards_the_backlog(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []

    async def play(loop: Sizing, fleet: Fleet, broker: StubBroker) -> None:
        for _ in range(4):
            await wait(0.5)
            seen.append(active(loop.pools[0]))
            await wait(2.5)

    broker = StubBroker(depths={"mail": 5, "news": 25})
    pool = sized(tmp_path, broker, play, monkeypatch=monkeypatch)
    assert seen == [[0, 1], [1, 1], [1, 2], [1, 2]]
    assert pool.depths == {"mail": 5, "news": 25}
    assert pool.status().target == 3


def test_a_wake_is_heeded_between_polls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def play(loop: Sizing, fleet: Fleet, broker: StubBroker) -> None:
        await wait(1.5)
        broker.depths["mail"] = 20
        loop.wake({"mail"})
        await wait(0.1)
        assert active(loop.pools[0]) == [2, 0]
        loop.wake({"elsewhere"})
        asked = len(broker.asked)
        await wait(0.5)
        assert len(broker.asked) == asked

    sized(tmp_path, StubBroker(), play, listens=True, monkeypatch=monkeypatch)


def test_a_broker_that_is_away_at_first_gives_each_queue_a_worker_and_keeps_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def play(loop: Sizing, fleet: Fleet, broker: StubBroker) -> None:
        await wait(10)
        assert active(loop.pools[0]) == [1, 1]
        assert broker.asked.count("depth") == 4 * 2

    sized(tmp_path, StubBroker(fails=0), play, monkeypatch=monkeypatch)


def test_a_dead_broker_is_asked_once_a_round(tmp_path: Path) -> None:
    async def go() -> None:
        broker = StubBroker(fails=0)
        reader = DepthReader(broker.client, 1.0, LOG)
        many = [f"q{number}" for number in range(5 * WAVE)]
        assert await reader.read(many, "jobs") is None
        assert await reader.read(["other"], "jobs") is None
        assert len(broker.asked) == WAVE
        reader.begin()
        broker.fails = None
        assert await reader.read(many, "jobs") == [0] * len(many)
        assert broker.together_max == WAVE

    trio.run(go, clock=MockClock(autojump_threshold=0))


def test_a_paused_fleet_is_not_sized_and_its_replicas_are_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    replicas = StubReplicas(View("a", ("a",)))

    async def play(loop: Sizing, fleet: Fleet, broker: StubBroker) -> None:
        await wait(1)
        fleet.pause()
        loop.look()
        await wait(0.1)
        assert replicas.calls == ["heartbeat", "leave"]
        asked = len(broker.asked)
        await wait(30)
        assert len(broker.asked) == asked
        fleet.resume()
        loop.look()
        await wait(0.1)
        assert replicas.calls == ["heartbeat", "leave", "heartbeat"]

    sized(tmp_path, StubBroker(), play, replicas=replicas, listens=True, monkeypatch=monkeypatch)
    assert replicas.calls[-1] == "leave"


@pytest.mark.parametrize("force", [False, True])
def test_maintenance_holds_a_pool_and_takes_it_from_its_replicas_unless_it_is_forced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, force: bool
) -> None:
    replicas = StubReplicas(View("a", ("a",)))

    async def play(loop: Sizing, fleet: Fleet, broker: StubBroker) -> None:
        for crew in loop.pools[0].crews:
            crew.is_forced = force
        await wait(1)
        fleet.maintain(True)
        broker.depths["mail"] = 90
        loop.wake({"mail"})
        asked = len(broker.asked)
        before = active(loop.pools[0])
        await wait(30)
        assert (len(broker.asked) > asked, active(loop.pools[0]) != before) == (force, force)
        assert replicas.absent == (set() if force else {"scope"})
        fleet.maintain(False)
        await wait(4)
        assert (replicas.absent, len(broker.asked) > asked) == (set(), True)

    sized(tmp_path, StubBroker(), play, replicas=replicas, listens=True, monkeypatch=monkeypatch)


def test_replicas_split_the_target_and_cover_different_queues(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = {}
    for own in ("a", "b"):

        async def play(loop: Sizing, fleet: Fleet, broker: StubBroker) -> None:
            await wait(20)

        view = View(own, ("a", "b"))
        pool = sized(
            tmp_path,
            StubBroker(depths={"mail": 1, "news": 1}),
            play,
            replicas=StubReplicas(view),
            monkeypatch=monkeypatch,
        )
        found[own] = active(pool)
    assert found == {"a": [1, 0], "b": [0, 1]}


def test_a_replica_without_a_view_waits_for_its_heartbeat(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    replicas = StubReplicas(None)

    async def play(loop: Sizing, fleet: Fleet, broker: StubBroker) -> None:
        loop.wake({"mail"})
        await wait(5)
        assert active(loop.pools[0]) == [0, 0]
        replicas.seen = View("a", ("a",))
        await wait(3)
        assert sum(active(loop.pools[0])) == 1

    sized(tmp_path, StubBroker(), play, replicas=replicas, listens=True, monkeypatch=monkeypatch)
