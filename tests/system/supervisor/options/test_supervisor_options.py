"""Options from a file, the environment and flags: who wins, what is refused, what it comes to."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec
import pytest

from atleastonce.system.jobs.settings import ConnectionSettings, WorkerSettings
from atleastonce.system.supervisor.config import SupervisorConfig, find_problems, parse_config
from atleastonce.system.supervisor.options.budget import heartbeat_timeout_s, loop_budget_s
from atleastonce.system.supervisor.options.building import build_config
from atleastonce.system.supervisor.options.resolving import OptionsError, Resolved, resolve

BASE = ("master.app=app:make", "master.state_dir=/state")


def given(*flags: str, toml: str = "", tmp: Path | None = None, **environment: str) -> Resolved:
    file = None
    if tmp is not None:
        file = tmp / "supervisor.toml"
        file.write_text(toml, encoding="utf-8")
    return resolve(file, environment, (*BASE, *flags))


def row(resolved: Resolved, path: str) -> tuple[object, str]:
    return next((row.value, row.origin) for row in resolved.rows if row.key.path == path)


def test_the_defaults_are_those_of_the_reference() -> None:
    resolved = given()
    assert resolved.problems == ()
    options = resolved.options
    assert (options.master.poll_interval_s, options.master.http_timeout_s) == (3, 5)
    assert (options.master.control_ttl_s, options.master.shutdown_grace_s) == (3600, 75)
    assert (options.master.process_limit, options.master.telemetry_ttl_s) == (256, 300)
    assert (options.master.event_driven, options.master.coordination) == (False, False)
    (pool,) = options.pools.values()
    assert (pool.balance, pool.strategy, pool.min_processes, pool.max_processes) == (
        "auto",
        "size",
        1,
        10,
    )
    assert (pool.target_jobs_per_process, pool.target_clear_s, pool.default_runtime_s) == (
        10,
        60,
        1,
    )
    assert (pool.balance_cooldown_s, pool.balance_max_shift, pool.scale_down_delay_s) == (3, 1, 10)
    assert (pool.restart_backoff_s, pool.restart_backoff_max_s, pool.stable_after_s) == (1, 30, 60)
    assert (pool.timeout_s, pool.retry_after_s, pool.tries, pool.memory_mib) == (60, 90, 3, 128)
    driver = options.driver
    assert (driver.partitions, driver.prefetch, driver.ack_batch, driver.bulk_batch) == (
        64,
        1,
        1,
        None,
    )
    assert ConnectionSettings(endpoints=(("h", 1),)).bulk_batch == 100
    assert (driver.request_tries, driver.request_waits_s, driver.request_timeout_s) == (
        3,
        (1, 2),
        30,
    )
    assert loop_budget_s(options) == 3 + 5 + 5 * 10 + 5
    assert heartbeat_timeout_s(options) == 64


def test_flags_win_over_the_environment_and_that_over_the_file(tmp_path: Path) -> None:
    toml = "[master]\npoll_interval_s = 1\nhttp_timeout_s = 1\ncontrol_ttl_s = 100\n"
    resolved = given(
        "master.poll_interval_s=3.5",
        tmp=tmp_path,
        toml=toml,
        ATLEASTONCE_MASTER_POLL_INTERVAL_S="2",
        ATLEASTONCE_MASTER_HTTP_TIMEOUT_S="2",
    )
    assert row(resolved, "master.poll_interval_s") == (3.5, "flag")
    assert row(resolved, "master.http_timeout_s") == (2.0, "environment")
    assert row(resolved, "master.control_ttl_s") == (100.0, "file")
    assert row(resolved, "master.process_limit") == (256, "default")


def test_pools_come_in_order_of_declaration_and_variables_find_them(tmp_path: Path) -> None:
    toml = '[pools.mail]\nqueues = ["mail"]\n[pools.mail-slow]\nqueues = ["a", "b"]\n'
    resolved = given(
        "pools.late.queues=c,d",
        tmp=tmp_path,
        toml=toml,
        ATLEASTONCE_POOL_MAIL_TRIES="5",
        ATLEASTONCE_POOL_MAIL_SLOW_TRIES="7",
        ATLEASTONCE_POOL_LATE_MAX_PROCESSES="4",
        ATLEASTONCE_NODE_TOKEN="somebody else's",
    )
    assert resolved.problems == ()
    pools = resolved.options.pools
    assert list(pools) == ["mail", "mail-slow", "late"]
    assert [pool.tries for pool in pools.values()] == [5, 7, 3]
    assert (pools["late"].queues, pools["late"].max_processes) == (("c", "d"), 4)


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (("master.app=nowhere",), ["master.app is 'nowhere'", "module:attribute"]),
        (("master.process_limit=5000",), ["'5000'|5000 (flag)", "1 to 4096"]),
        (("master.process_limit=9",), ["process_limit is 9", "10 workers"]),
        (("master.control_ttl_s=29",), ["control_ttl_s", "30 to 86400"]),
        (("master.control_ttl_s=62",), ["control_ttl_s is 62", "may take 63"]),
        (("master.heartbeat_timeout_s=60",), ["heartbeat_timeout_s is 60", "may take 63"]),
        (("master.shutdown_grace_s=60",), ["shutdown_grace_s is 60", "timeout_s, 60"]),
        (("pools.q.retry_after_s=60",), ["retry_after_s is 60", "exceed timeout_s, 60"]),
        (("driver.prefetch=2",), ["driver.prefetch is 2", "needs driver.lease_renewal"]),
        (("driver.prefetch=auto",), ["driver.prefetch is auto", "needs driver.lease_renewal"]),
        (("driver.ack_batch=2",), ["driver.ack_batch is 2", "driver.prefetch at most, 1"]),
        (
            ("driver.prefetch=auto", "driver.lease_renewal=on", "driver.ack_batch=17"),
            ["driver.ack_batch is 17", "driver.prefetch at most, 16"],
        ),
        (("driver.pop_ahead=on",), ["driver.pop_ahead", "needs driver.lease_renewal"]),
        (
            (
                "driver.ack_async=true",
                "driver.ack_batch=2",
                "driver.prefetch=2",
                "driver.lease_renewal=true",
            ),
            ["driver.ack_batch is 2", "ack_async only 1"],
        ),
        (
            ("driver.lease_renewal=true", "driver.renewal_interval_s=76"),
            ["retry_after_s is 90", "exceed 90", "5 × 1 endpoints"],
        ),
        (
            ("driver.lease_renewal=true", "master.lease_service=false"),
            ["lease_service is false", "driver.lease_renewal"],
        ),
        (("pools.q.queues=a,b,c", "pools.q.max_processes=2"), ["max_processes is 2", "3 queues"]),
        (("pools.q.max_processes=3", "pools.q.balance_max_shift=4"), ["balance_max_shift is 4"]),
        (("pools.q.min_processes=11",), ["min_processes is 11", "10"]),
        (("pools.q.queues=a,a",), ["names a queue twice"]),
        (("pools.q.min_processes_per_queue=1", "pools.q.balance=simple"), ["only 0 is allowed"]),
        (("pools.q.restart_backoff_max_s=0.5",), ["restart_backoff_max_s is 0.5", "1"]),
        (("driver.endpoints=nowhere",), ["'nowhere'", "host:port"]),
        (("driver.endpoints=http://h:1",), ["'http://h:1'", "host:port"]),
        (("driver.consumer_group=",), ["consumer_group is ''", "a text that is not empty"]),
        (
            ("pools.q.retry_after_s=60.9", "pools.q.timeout_s=60.5"),
            ["retry_after_s is 60.9, which is a lease of 60;", "timeout_s, 60.5"],
        ),
        (
            (
                "driver.lease_renewal=on",
                "driver.renewal_interval_s=46.5",
                "pools.q.retry_after_s=60.9",
                "pools.q.timeout_s=30",
            ),
            ["retry_after_s is 60.9, which is a lease of 60;", "exceed 60.5"],
        ),
        (("driver.partitions=1025",), ["1025", "1 to 1024"]),
        (("driver.prefetch=1001",), ["1001", "1 to 1000 or auto"]),
        (("pools.q.tries=-1",), ["-1", "0 or more"]),
        (("pools.q.timeout_s=inf",), ["inf", "a number, 0 or more"]),
        (("pools.q.balance=automatic",), ["'automatic'", "auto or simple or off"]),
        (("pools.q.fast_scale_up=maybe",), ["'maybe'", "true or false"]),
        (("pools.q.no_such=1",), ["pools.q.no_such", "no such option"]),
        (("nowhere.app=1",), ["nowhere.app", "no such option"]),
        (("pools.-q.tries=1",), ["'-q'", "letters"]),
        (
            ("pools.a-b.tries=1", "pools.A_b.tries=2"),
            ["'a-b' and 'A_b' have the same variables, ATLEASTONCE_POOL_A_B_"],
        ),
        (("driver.key=/k",), ["driver.key: authority is missing"]),
        (("master.app",), ["no value", "KEY=VALUE"]),
        (("driver.bulk_batch=0",), ["driver.bulk_batch is 0", "1 or more or none"]),
    ],
)
def test_a_refusal_is_one_line_that_names_the_value_and_what_is_allowed(
    flags: tuple[str, ...], words: list[str]
) -> None:
    (problem,) = given(*flags).problems
    assert "\n" not in problem
    for word in words:
        assert any(choice in problem for choice in word.split("|")), problem


def test_all_problems_come_at_once_and_bad_values_cause_no_further_ones() -> None:
    resolved = given(
        "pools.q.timeout_s=long",
        "pools.q.retry_after_s=30",
        "driver.prefetch=4",
        "master.process_limit=3",
        ATLEASTONCE_MASTER_POLL_INTERVALL_S="1",
    )
    assert len(resolved.problems) == 4, resolved.problems
    assert "did you mean ATLEASTONCE_MASTER_POLL_INTERVAL_S?" in resolved.problems[0]
    with pytest.raises(OptionsError) as caught:
        resolved.checked()
    assert caught.value.problems == list(resolved.problems)


@pytest.mark.parametrize(
    ("toml", "words"),
    [
        ("[", "is no TOML"),
        ("master = 3", "want a table"),
        ("[pools]\nq = 3", "want a table"),
        ("[masters]", "did you mean master?"),
        ("[master]\npoll_intervall_s = 1", "did you mean poll_interval_s?"),
        ('[master]\npoll_interval_s = "1"', "master.poll_interval_s is '1' (file): want a number"),
        ('[pools."a b"]\n', "'a b'"),
        ("[pools.q]\nqueues = []", "want a list of one or more texts"),
    ],
)
def test_a_file_that_is_wrong_is_refused_by_name(tmp_path: Path, toml: str, words: str) -> None:
    (problem,) = given(tmp=tmp_path, toml=toml).problems
    assert words in problem


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    (problem,) = resolve(tmp_path / "none.toml", {}, BASE).problems
    assert re.fullmatch(r"cannot read .*none\.toml: No such file or directory", problem)


def test_one_try_with_prefetch_only_warns() -> None:
    resolved = given("driver.prefetch=4", "driver.lease_renewal=on", "pools.q.tries=1")
    assert resolved.problems == ()
    (warning,) = resolved.warnings
    assert "pools.q.tries is 1" in warning
    assert given("pools.q.tries=1").warnings == ()


def test_none_takes_the_default_that_depends_on_others() -> None:
    resolved = given("master.shutdown_grace_s=none", "pools.q.timeout_s=80")
    assert build_config(resolved.checked()).shutdown_grace_s == 95


def test_what_jobs_dispatch_is_the_applications_unless_the_driver_says_so() -> None:
    plain = build_config(given().checked()).worker
    assert (plain.bulk_batch, plain.after_commit) == (None, None)
    chosen = given("driver.bulk_batch=7", "driver.after_commit=true").checked()
    worker = build_config(chosen).worker
    assert (worker.bulk_batch, worker.after_commit) == (7, True)


def test_prefetch_and_ack_batch_reach_the_workers() -> None:
    resolved = given("driver.prefetch=auto", "driver.lease_renewal=on", "driver.ack_batch=8")
    worker = build_config(resolved.checked()).worker
    assert (worker.prefetch, worker.ack_batch) == ("auto", 8)
    assert msgspec.json.decode(msgspec.json.encode(worker), type=type(worker)) == worker


def test_options_come_to_a_configuration_that_the_master_takes() -> None:
    resolved = given(
        "driver.endpoints=a:1,b:2",
        "driver.prefetch=4",
        "driver.lease_renewal=on",
        "driver.request_tries=4",
        "pools.mail.queues=mail,news",
        "pools.mail.max_processes=20",
        "pools.mail.target_clear_s=30",
        "pools.slow.queues=slow",
        "pools.slow.retry_after_s=70",
        "pools.slow.balance=simple",
        "pools.slow.processes=3",
    )
    config = build_config(resolved.checked())
    assert list(find_problems(config)) == []
    assert config.workers == 23
    assert config.worker.retry_after_s == 70
    assert config.worker.deadline_s == 4 * 30 + 1 + 2 + 2
    assert config.renewal.interval_s == pytest.approx(70 / 3)
    assert not isinstance(config.pools, msgspec.UnsetType)
    policy = config.pools[0].scaling.policy(2)
    assert (policy.most, policy.clear_us, policy.places) == (20, 30_000_000, 2)
    assert config.pools[1].scaling.policy(1).least == 3
    assert parse_config(msgspec.json.encode(config)) == config


def test_without_renewal_short_leases_are_fine() -> None:
    resolved = given("pools.q.retry_after_s=2", "pools.q.timeout_s=1")
    assert list(find_problems(build_config(resolved.checked()))) == []


def test_a_configuration_without_pools_is_written_as_before() -> None:
    worker = WorkerSettings(queue="q", endpoints=(("h", 1),), state_dir="/s")
    config = SupervisorConfig(app="a:b", workers=2, worker=worker, state_dir="/s")
    assert not {"pools", "control"} & msgspec.json.decode(msgspec.json.encode(config)).keys()
