"""The status that is published in the broker: what it says, who reads it, and what it costs."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner, Result

from atleastonce.system.client import Endpoint, SyncClient
from atleastonce.system.client.keyvalue import KvAnswer, KvListed, kv
from atleastonce.system.entry import main as atleastonce
from atleastonce.system.supervisor.cli import supervisor
from atleastonce.system.supervisor.records import PoolStatus, Status, WorkerStatus
from atleastonce.system.supervisor.remote_status import (
    FAILURE_LENGTH_MAX,
    POOLS_MAX,
    age_s,
    read_listing,
    summarize,
)
from atleastonce.system.supervisor.replicas import NAMESPACE

from .one_node import one_node
from .pooled import Pooled
from .supervised import PATIENCE_S, wait_for

_OPTIONS = """
[master]
app = "supervised_app:make_app"
poll_interval_s = 0.2
http_timeout_s = 0.5
remote_status = true
prefork = true
[driver]
partitions = 8
block_for_s = 1
request_timeout_s = 2
[pools.mail]
queues = ["mail", "news"]
max_processes = 2
memory_mib = 0
"""
POOL = PoolStatus(
    name="p", target=2, active=2, draining=0, circuit="closed", depths={"mail": 3, "news": 4}
)
STATUS = Status(
    t_ns=1,
    master=7,
    fork_server=8,
    state="running",
    circuit="closed",
    workers=[
        WorkerStatus(pid=9, state="running", job="j", since_ns=1, leases=1),
        WorkerStatus(pid=10, state="idle", job=None, since_ns=1, leases=0),
    ],
    instance="i",
    desired=3,
    pools=[POOL],
)


def remotely(port: int, *words: str) -> Result:
    words = ("supervisor", "status", "--remote", "--endpoint", f"127.0.0.1:{port}", *words)
    return CliRunner().invoke(atleastonce, words)


def listed(port: int) -> list[dict[str, Any]]:
    done = remotely(port, "--json")
    assert done.exit_code == 0, done.output
    found: list[dict[str, Any]] = json.loads(done.stdout)["supervisors"]
    return found


def test_workers_and_depths_are_told_as_sums_and_what_may_be_long_is_cut() -> None:
    status = msgspec.structs.replace(STATUS, pools=[POOL] * 300, start_failure="x" * 9999)
    told = summarize(status, "h", 5, 15, 1)
    assert (told.workers, told.living, told.not_consuming) == ({"running": 1, "idle": 1}, 2, 1)
    assert told.pools[0].depths == {"": 7}
    assert (len(told.pools), len(told.start_failure or "")) == (POOLS_MAX, FAILURE_LENGTH_MAX)
    assert len(msgspec.json.encode(told)) < 64 << 10
    assert age_s(told, 1_500_000_005) == 1.5


def test_a_value_of_another_kind_is_named_and_hides_no_other() -> None:
    good = msgspec.Raw(msgspec.json.encode(summarize(STATUS, "h", 5, 15, 0)))
    rows = (
        KvListed(key="status/a", version=1, value=msgspec.Raw(b'"no"')),
        KvListed(key="status/i", version=1, value=good),
    )
    found, strange = read_listing((KvAnswer(op="getPrefix", rows=rows),))
    assert ([seen.instance for seen in found], strange) == (["i"], ["status/a"])


@pytest.mark.cluster
def test_the_status_is_published_follows_what_happens_and_is_gone_after_the_end(
    pooled: Pooled,
) -> None:
    pooled.options = _OPTIONS
    pooled.launch()
    wait_for(lambda: listed(pooled.port), f"a published status\n{pooled.log()}")
    wait_for(lambda: listed(pooled.port)[0]["workers"], f"its workers\n{pooled.log()}")
    (seen,) = listed(pooled.port)
    status = pooled.status()
    assert (seen["master"], seen["instance"]) == (status["master"], status["instance"])
    assert 0 <= seen["age_s"] < PATIENCE_S
    text = remotely(pooled.port).stdout
    assert f"master {status['master']}: running, " in text
    assert "  pool mail: " in text
    assert pooled.asked("pause")["state"] in ("pausing", "paused")
    wait_for(lambda: listed(pooled.port)[0]["state"] == "paused", "the pause")
    assert pooled.stop() == 0
    assert listed(pooled.port) == []
    assert "no supervisor publishes" in remotely(pooled.port).stdout


@pytest.mark.cluster
def test_a_master_that_was_killed_is_listed_until_its_key_expires(pooled: Pooled) -> None:
    pooled.options = _OPTIONS.replace("[driver]", "heartbeat_timeout_s = 40\n[driver]")
    pooled.launch()
    wait_for(lambda: listed(pooled.port), f"a published status\n{pooled.log()}")
    assert pooled.process is not None
    os.kill(pooled.process.pid, signal.SIGKILL)
    (seen,) = listed(pooled.port)
    client = SyncClient([Endpoint("127.0.0.1", pooled.port)])
    get = kv([{"op": "get", "ns": NAMESPACE, "key": f"status/{seen['instance']}"}])
    (answer,) = client.call(get).value
    client.close()
    assert (answer.found, answer.expires_at is not None) == (True, True)
    assert 15 <= seen["ttl_s"] <= 40


@pytest.mark.cluster
def test_a_broker_that_is_not_there_disturbs_neither_the_master_nor_its_end(
    tmp_path: Path,
) -> None:
    with one_node(tmp_path) as port:
        pooled = Pooled(tmp_path, port, options=_OPTIONS)
        pooled.launch()
        try:
            wait_for(lambda: listed(port), f"a published status\n{pooled.log()}")
        except BaseException:
            pooled.end()
            raise
    try:
        wait_for(lambda: "status not published" in pooled.log(), "a line about it")
        before = pooled.status()["t_ns"]
        wait_for(lambda: pooled.status()["t_ns"] > before, "another heartbeat")
        assert pooled.codes("--check-liveness") == []
        assert pooled.log().count("status not published") == 1
        done = remotely(port)
        assert (done.exit_code, f"127.0.0.1:{port}" in done.stderr) == (1, True)
        assert pooled.stop() == 0
    finally:
        pooled.end()


@pytest.mark.parametrize(
    "words",
    [
        ("--remote", "--endpoint", "nowhere"),
        ("--remote", "--endpoint", "http://127.0.0.1:1"),
        ("--remote", "--check"),
        ("--endpoint", "127.0.0.1:1"),
        ("--remote", "--token-file", "/nowhere/at/all"),
    ],
)
def test_what_cannot_be_asked_is_refused_with_status_2(words: tuple[str, ...]) -> None:
    done = CliRunner().invoke(atleastonce, ["supervisor", "status", *words])
    assert done.exit_code == 2, done.output


def test_two_checks_at_once_are_refused_and_not_answered_by_one(tmp_path: Path) -> None:
    words = ("status", "--state-dir", str(tmp_path), "--check", "--check-liveness")
    done = CliRunner().invoke(supervisor, words)
    assert (done.exit_code, "choose one of --check" in done.output) == (2, True)
