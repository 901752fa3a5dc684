"""`after_commit` of a connection: every dispatch in an open transaction waits for its commit."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import trio

from atleastonce.system.client import AsyncClient, SyncClient
from atleastonce.system.jobs import (
    AfterCommit,
    Application,
    Dispatcher,
    JobContext,
    SyncDispatcher,
    flush_outbox,
    notification,
    queued_listener,
    step,
)

from .one_node import Site

pytestmark = pytest.mark.cluster


class RolledBackError(Exception):
    """Undoes a transaction."""


@pytest.fixture
def db(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(tmp_path / "app.db")) as connection:
        yield connection


@pytest.fixture
def app(site: Site) -> Application:
    """Its own connection waits for commits, the other one does not."""
    site.app.set_dispatching(None, after_commit=True)
    site.app.connections = {"other": site.other}

    @site.app.job("note")
    def note(context: JobContext, payload: object) -> None:
        site.log("ran", payload)

    @site.app.job("elsewhere", connection="other")
    def elsewhere(context: JobContext, payload: object) -> None:
        site.log("ran", payload)

    @queued_listener(site.app, "placed")
    def listener(context: JobContext, payload: object) -> None:
        site.log("ran", payload)

    @notification(site.app, "told")
    def told(context: JobContext, notifiable: object, payload: object) -> None:
        site.log("ran", notifiable)

    return site.app


def test_dispatches_in_a_transaction_are_sent_when_it_commits(
    site: Site, app: Application, db: sqlite3.Connection
) -> None:
    dispatcher = site.dispatcher
    with dispatcher.after_commit(db) as later:
        waiting = dispatcher.dispatch(app, "note", 1)
        dispatcher.chain(app, [step("note", 2), step("note", 3)])
        dispatcher.emit(app, "placed", 4)
        dispatcher.notify(app, "told", [5, 6])
        many = dispatcher.dispatch_many(app, [step("note", 7), step("note", 8)])
        dispatcher.batch(app, [step("note", 9)])
        assert site.left() == 0
    assert (waiting.status, waiting.offset, waiting.answered_by) == ("waiting", None, "")
    assert [told.result and told.result.status for told in many] == ["waiting", "waiting"]
    assert waiting.job_id in {result.job_id for result in later.results}
    assert {result.status for result in later.results} == {"queued"}
    site.run_until_drained()
    assert sorted(site.records("ran")) == [1, 2, 3, 4, 5, 6, 7, 8, 9]
    assert flush_outbox(dispatcher.send, db) == ()


def dispatch_and_break(site: Site, app: Application, later: AfterCommit) -> None:
    with later:
        site.dispatcher.dispatch(app, "note", 1)
        site.dispatcher.dispatch(app, "note", 2, after_commit=False)
        site.dispatcher.batch(app, [step("note", 3)])
        site.dispatcher.dispatch_many(
            app, [step("note", 4), step("note", 5, after_commit=False), step("note", 6)]
        )
        raise RolledBackError


@pytest.mark.parametrize("outbox", [True, False])
def test_dispatches_in_a_transaction_that_rolls_back_are_dropped_unless_they_say_otherwise(
    site: Site, app: Application, db: sqlite3.Connection, outbox: bool
) -> None:
    with pytest.raises(RolledBackError):
        dispatch_and_break(site, app, site.dispatcher.after_commit(db, outbox=outbox))
    site.run_until_drained()
    assert sorted(site.records("ran")) == [2, 5]
    assert flush_outbox(site.dispatcher.send, db) == ()


def test_without_a_transaction_or_after_it_a_dispatch_goes_at_once(
    site: Site, app: Application, db: sqlite3.Connection
) -> None:
    assert site.dispatcher.dispatch(app, "note", 1).status == "queued"
    with site.dispatcher.after_commit(db):
        pass
    assert site.dispatcher.dispatch(app, "note", 2).status == "queued"
    site.run_until_drained()
    assert sorted(site.records("ran")) == [1, 2]


def test_without_the_option_a_dispatch_waits_only_if_it_says_so(
    site: Site, app: Application, db: sqlite3.Connection
) -> None:
    with site.dispatcher.after_commit(db) as later:
        at_once = site.dispatcher.dispatch(app, "elsewhere", 1)
        waits = site.dispatcher.dispatch(app, "elsewhere", 2, after_commit=True)
    assert (at_once.status, waits.status) == ("queued", "waiting")
    assert [result.job_id for result in later.results] == [waits.job_id]
    site.start(site.other)
    site.run_until_drained()


def test_tasks_dispatch_when_their_transaction_commits_and_not_when_it_rolls_back(
    site: Site, app: Application, db: sqlite3.Connection
) -> None:
    async def place(dispatcher: Dispatcher, number: int) -> str:
        return (await dispatcher.dispatch(app, "note", number)).status

    async def go() -> Any:
        client = AsyncClient([site.node.endpoint])
        dispatcher = Dispatcher(client)
        try:
            async with dispatcher.after_commit(db) as later:
                inside = await place(dispatcher, 1)
                await dispatcher.batch(app, [step("note", 2)])
                await dispatcher.dispatch_many(app, [step("note", 3)])
            with pytest.raises(RolledBackError):
                await break_off(dispatcher)
            return inside, await place(dispatcher, 4), later.results
        finally:
            await client.aclose()

    async def break_off(dispatcher: Dispatcher) -> None:
        async with dispatcher.after_commit(db, outbox=False):
            await place(dispatcher, 5)
            raise RolledBackError

    inside, outside, results = trio.run(go)
    assert (inside, outside) == ("waiting", "queued")
    assert [result.status for result in results] == ["queued", "queued"]
    site.run_until_drained()
    assert sorted(site.records("ran")) == [1, 2, 3, 4]
    assert flush_outbox(site.dispatcher.send, db) == ()


def test_workers_take_the_option_from_their_settings(
    site: Site, app: Application, db: sqlite3.Connection
) -> None:
    site.app.set_dispatching(None, after_commit=False)

    @site.app.job("place")
    def place(context: JobContext, payload: object) -> None:
        # The test's own connections are not for a process that was forked from it.
        dispatcher = SyncDispatcher(SyncClient([site.node.endpoint]))
        with closing(sqlite3.connect(site.folder / "worker.db")) as mine:
            with dispatcher.after_commit(mine):
                status = dispatcher.dispatch(app, "note", 1).status
            site.log("status", status)

    site.dispatcher.dispatch(site.app, "place", None)
    site.run_until_drained(after_commit=True)
    assert site.records("status") == ["waiting"]
    assert site.records("ran") == [1]
