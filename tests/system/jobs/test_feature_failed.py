"""The commands on failed jobs and on queues that hold too much, as typed by a person."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from atleastonce.system.client import calls
from atleastonce.system.jobs import (
    Application,
    JobContext,
    QueueBusy,
    prune_failed,
    queue_size,
)
from atleastonce.system.node.cli import main

from .one_node import Site, wait_for

pytestmark = pytest.mark.cluster


class Typed:
    """Commands on one site."""

    def __init__(self, site: Site, capfd: pytest.CaptureFixture[str]) -> None:
        self._site = site
        self._capfd = capfd

    def run(self, *arguments: str) -> tuple[int, str, str]:
        """Status, standard output, standard error."""
        self._capfd.readouterr()
        with pytest.raises(SystemExit) as ended:
            main.main(list(arguments))
        out, err = self._capfd.readouterr()
        return int(str(ended.value.code)), out, err

    def failed(self, *arguments: str) -> tuple[int, str, str]:
        word, *rest = arguments
        store = ["--store", str(self._site.store.path)]
        return self.run("failed", word, *store, *([] if word == "list" else self.url), *rest)

    @property
    def url(self) -> list[str]:
        return ["--url", f"http://{self._site.node.endpoint}"]


@pytest.fixture
def typed(site: Site, capfd: pytest.CaptureFixture[str]) -> Typed:
    @site.app.job("bad", tries=2)
    def bad(context: JobContext, payload: object) -> None:
        site.log("ran", context.attempt)
        if not (site.folder / "mended").exists():
            raise ValueError("no luck")

    return Typed(site, capfd)


def fail(site: Site, *names: str) -> None:
    for name in names:
        site.dispatcher.dispatch(site.app, "bad", {"secret": 1}, job_id=name)
    site.start()
    wait_for(lambda: {row.id for row in site.store.list()} >= set(names))
    site.stop()


def dead_letters(site: Site) -> list[str]:
    found = site.node.client.dlq(site.connection.queue, "jobs").value
    # A copy's transaction id begins with its job's.
    return sorted(row.transaction_id.split(".")[0] for row in found.messages)


def test_failed_jobs_are_listed_retried_with_all_tries_forgotten_and_flushed(
    site: Site, typed: Typed
) -> None:
    fail(site, "a", "b", "c", "d")
    status, out, _ = typed.failed("list", "--json")
    assert status == 0
    assert sorted(row["id"] for row in json.loads(out)) == ["a", "b", "c", "d"]
    assert "secret" not in out
    assert typed.failed("list")[1].count("ValueError: no luck") == 4
    assert dead_letters(site) == ["a", "b", "c", "d"]

    assert typed.failed("forget", "a") == (0, "forgotten a\n", "")
    assert dead_letters(site) == ["b", "c", "d"]
    assert site.left() == 0

    (site.folder / "mended").touch()
    assert typed.failed("retry", "b") == (0, "retried b\n", "")
    assert (dead_letters(site), site.left()) == (["c", "d"], 1)
    site.run_until_drained()
    assert sorted(site.records("ran")) == [1] * 5 + [2] * 4

    retried = json.loads(typed.failed("retry", "--all", "--json")[1])["retried"]
    assert sorted(retried) == ["c", "d"]
    site.run_until_drained()
    assert (dead_letters(site), site.store.list()) == ([], ())

    (site.folder / "mended").unlink()
    fail(site, "e", "f")
    assert typed.failed("flush") == (0, "forgotten: 2\n", "")
    assert (dead_letters(site), site.store.list()) == ([], ())


def test_job_that_is_retried_and_fails_anew_can_be_retried_anew(site: Site, typed: Typed) -> None:
    fail(site, "a")
    first = site.store.list()[0].txn
    for _ in range(2):
        assert typed.failed("retry", "a")[0] == 0
        site.start()
        wait_for(lambda: len(site.store.list()) == 1)
        site.stop()
    assert site.store.list()[0].txn != first
    assert site.records("ran") == [1, 2] * 3
    assert len(dead_letters(site)) == 1


def test_prune_keeps_what_failed_within_the_hours(site: Site, typed: Typed) -> None:
    fail(site, "a", "b")
    assert typed.failed("prune", "--hours", "1") == (0, "forgotten: 0\n", "")
    assert typed.failed("flush", "--hours", "1") == (0, "forgotten: 0\n", "")
    assert len(dead_letters(site)) == 2
    later_s = site.store.list()[0].failed_at + 7200
    assert prune_failed(site.store, site.node.client, 3, later_s) == 0
    assert typed.failed("prune", "--hours", "0", "--json") == (0, '{"forgotten": 2}\n', "")
    assert (dead_letters(site), site.store.list()) == ([], ())


def test_bad_input_is_one_line_and_status_two(site: Site, typed: Typed, tmp_path: Path) -> None:
    fail(site, "a")
    broken = tmp_path / "broken.db"
    broken.write_text("not a database, but long enough to look like one" * 10)
    cases: dict[tuple[str, ...], str] = {
        ("forget", "gone"): "no failed job 'gone'",
        ("retry", "a", "gone"): "no failed job 'gone'",
        ("retry",): "name the ids of failed jobs, or give --all",
        ("prune", "--hours", "-1"): "-1",
        ("retry", "a", "--url", "ftp://x"): "'ftp://x' is no URL of a node",
        ("list", "--store", str(broken)): "cannot use",
        ("list", "--store", str(tmp_path / "none.db")): "does not exist",
    }
    for arguments, text in cases.items():
        status, out, err = typed.failed(*arguments)
        assert (status, out, err.count("\n")) == (2, "", 1), (arguments, err)
        assert text in err
    assert [row.id for row in site.store.list()] == ["a"]
    assert dead_letters(site) == ["a"]


def test_broker_that_does_not_answer_is_one_line_and_status_one(site: Site, typed: Typed) -> None:
    fail(site, "a")
    store = ["--store", str(site.store.path)]
    status, out, err = typed.run(
        "failed", "forget", *store, "--url", "http://127.0.0.1:1", "--timeout", "0.2", "a"
    )
    assert (status, out, err.count("\n")) == (1, "", 1)
    assert len(site.store.list()) == 1


def test_size_counts_what_is_ready_running_and_delayed(site: Site, typed: Typed) -> None:
    client, queue = site.node.client, site.connection.queue
    assert queue_size(client, queue, "jobs").total == 0
    for _ in range(3):
        site.dispatcher.dispatch(site.app, "bad", None)
    site.dispatcher.dispatch(site.app, "bad", None, delay_s=60)
    size = queue_size(client, queue, "jobs")
    assert (size.ready, size.running, size.delayed, size.total) == (3, 0, 1, 4)
    client.call(calls.pop(queue, group="jobs", batch=1, partitions=1, lease_s=30))
    size = queue_size(client, queue, "jobs")
    assert (size.ready, size.running, size.delayed, size.total) == (2, 1, 1, 4)


def test_monitor_says_which_queue_is_busy_by_status_line_and_event(
    site: Site, typed: Typed, monkeypatch: pytest.MonkeyPatch
) -> None:
    watched, heard = Application(), list[Any]()
    watched.listen(QueueBusy, heard.append)
    module = ModuleType("watched_site")
    module.app = watched  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "watched_site", module)
    busy, idle = site.connection.queue, site.other.queue
    for _ in range(3):
        site.dispatcher.dispatch(site.app, "bad", None)
    options = ["--app", "watched_site:app", *typed.url]
    assert typed.run("monitor", busy, idle, "--max", "3", *options)[0] == 0
    assert heard == []
    status, out, _ = typed.run("monitor", busy, idle, "--max", "2", *options)
    assert status == 1
    assert out.splitlines() == [
        f"{busy}  BUSY  3 of 2: 3 ready, 0 running, 0 delayed",
        f"{idle}  ok  0 of 2: 0 ready, 0 running, 0 delayed",
    ]
    assert heard == [QueueBusy(busy, 3, 2)]
    status, out, _ = typed.run("monitor", busy, "--max", "2", "--json", *typed.url)
    assert (status, json.loads(out)[0]["busy"]) == (1, True)
    status, _, err = typed.run("monitor", busy, "--app", "no_such_module:app", *typed.url)
    assert (status, err.count("\n")) == (2, 1)
