"""The switches of pools: what the options come to for the master and its workers."""

from __future__ import annotations

from atleastonce.system.supervisor.config import SupervisorConfig
from atleastonce.system.supervisor.options.building import build_config
from atleastonce.system.supervisor.options.resolving import resolve
from atleastonce.system.supervisor.pool_config import ControlConfig, PoolConfig
from atleastonce.system.supervisor.sized_pool import build_crews

_BASE = ("master.app=app:make", "master.state_dir=/state")


def built(*flags: str) -> tuple[SupervisorConfig, dict[str, PoolConfig]]:
    config = build_config(resolve(None, {}, (*_BASE, *flags)).checked())
    assert isinstance(config.pools, tuple)
    return config, {pool.name: pool for pool in config.pools}


def test_workers_load_the_application_themselves_unless_master_or_pool_says_otherwise() -> None:
    config, pools = built("pools.a.tries=3")
    assert (pools["a"].prefork, config.loads_once()) == (False, False)
    config, pools = built("master.prefork=true", "pools.a.tries=3", "pools.b.prefork=false")
    assert (pools["a"].prefork, pools["b"].prefork) == (True, False)
    assert config.loads_once()
    config, pools = built("pools.a.prefork=true", "pools.b.tries=3")
    assert (pools["a"].prefork, pools["b"].prefork) == (True, False)
    assert config.loads_once()


def test_a_pool_is_quiet_and_held_by_maintenance_unless_it_says_otherwise() -> None:
    _, pools = built("pools.a.quiet=false", "pools.a.force=true", "pools.b.tries=3")
    assert (pools["a"].worker.quiet, pools["a"].force) == (False, True)
    assert (pools["b"].worker.quiet, pools["b"].force) == (True, False)


def test_the_status_is_published_only_if_that_is_wanted() -> None:
    for wanted in ("false", "true"):
        config, _ = built(f"master.remote_status={wanted}")
        assert isinstance(config.control, ControlConfig)
        assert config.control.remote_status is (wanted == "true")


def test_a_worker_of_a_list_has_the_whole_list_and_others_one_queue_each() -> None:
    for balance, wanted in (
        ("off", [("high", ("high", "low"))]),
        ("simple", [("high", ()), ("low", ())]),
        ("auto", [("high", ()), ("low", ())]),
    ):
        config, _ = built("pools.a.queues=high,low", f"pools.a.balance={balance}")
        crews, _ = build_crews(config, lambda worker: worker, frozenset())
        assert [(c.settings.queue, c.settings.queues) for c in crews] == wanted
    config, _ = built("pools.a.queues=only", "pools.a.balance=off")
    crews, _ = build_crews(config, lambda worker: worker, frozenset())
    assert [(c.settings.queue, c.settings.queues) for c in crews] == [("only", ())]
