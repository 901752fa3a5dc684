"""After-commit dispatch: what is rolled back never runs, what committed is never lost."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from atleastonce.system.client import BrokerError, ClientOptions, Endpoint, SyncClient
from atleastonce.system.jobs import AfterCommit, JobContext, SyncDispatcher, flush_outbox, step
from atleastonce.system.jobs.outbox import TABLE

from .one_node import Site

pytestmark = pytest.mark.cluster


@pytest.fixture
def db(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(tmp_path / "app.db")) as connection:
        connection.execute("CREATE TABLE orders (id INTEGER)")
        connection.commit()
        yield connection


def orders(db: sqlite3.Connection) -> list[int]:
    return [row[0] for row in db.execute("SELECT id FROM orders")]


def waiting(db: sqlite3.Connection) -> int:
    (count,) = db.execute(f"SELECT count(*) FROM {TABLE}").fetchone()
    return int(count)


def add_job(site: Site) -> None:
    @site.app.job("ship")
    def ship(context: JobContext, payload: object) -> None:
        site.log("shipped", payload)


def place_an_order_and_break(site: Site, db: sqlite3.Connection, later: AfterCommit) -> None:
    with later:
        db.execute("INSERT INTO orders VALUES (4)")
        later.dispatch(site.app, "ship", 4)
        raise ZeroDivisionError


@pytest.mark.parametrize("outbox", [True, False])
def test_job_of_a_transaction_that_commits_runs_and_of_one_that_rolls_back_never(
    site: Site, db: sqlite3.Connection, outbox: bool
) -> None:
    add_job(site)
    with site.dispatcher.after_commit(db, outbox=outbox) as later:
        db.execute("INSERT INTO orders VALUES (1)")
        later.dispatch(site.app, "ship", 1)
        later.chain(site.app, [step("ship", 2), step("ship", 3)])
        assert site.left() == 0
    assert [result.status for result in later.results] == ["queued", "queued"]
    later = site.dispatcher.after_commit(db, outbox=outbox)
    with pytest.raises(ZeroDivisionError):
        place_an_order_and_break(site, db, later)
    assert later.results == []
    assert flush_outbox(site.dispatcher.send, db) == ()
    site.run_until_drained()
    assert sorted(site.records("shipped")) == [1, 2, 3]
    assert orders(db) == [1]


def test_job_that_could_not_be_sent_after_its_commit_waits_in_the_outbox(
    site: Site, db: sqlite3.Connection
) -> None:
    add_job(site)
    nowhere = SyncClient([Endpoint("127.0.0.1", 1)], ClientOptions(0.2, 0.2))
    with SyncDispatcher(nowhere).after_commit(db) as later:
        db.execute("INSERT INTO orders VALUES (1)")
        later.dispatch(site.app, "ship", 1, delay_s=0.05)
    assert (orders(db), later.results, waiting(db)) == ([1], [], 1)
    with pytest.raises(BrokerError):
        flush_outbox(SyncDispatcher(nowhere).send, db)
    assert waiting(db) == 1
    (result,) = flush_outbox(site.dispatcher.send, db)
    assert (result.status, waiting(db)) == ("scheduled", 0)
    site.run_until_drained()
    assert site.records("shipped") == [1]


def test_job_that_was_sent_just_before_a_crash_is_not_doubled_by_the_outbox(
    site: Site, db: sqlite3.Connection
) -> None:
    add_job(site)

    class CrashError(Exception):
        pass

    def send_and_crash(dispatch: object) -> object:
        site.dispatcher.send(dispatch)  # type: ignore[arg-type]
        raise CrashError

    with pytest.raises(CrashError), AfterCommit(send_and_crash, db) as later:  # type: ignore[arg-type]
        later.dispatch(site.app, "ship", 1)
    (result,) = flush_outbox(site.dispatcher.send, db)
    assert result.status in ("queued", "duplicate")
    site.run_until_drained()
    assert site.records("shipped") == [1]
