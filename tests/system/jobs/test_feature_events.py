"""Events in the worker, queued listeners, queued notifications."""

from __future__ import annotations

import pytest

from atleastonce.system.jobs import JobContext, notification, queued_listener

from .one_node import Site

pytestmark = pytest.mark.cluster


def test_listeners_hear_before_after_and_failing_in_that_order(site: Site) -> None:
    @site.app.job("fails", tries=2)
    def fails(context: JobContext, payload: object) -> None:
        site.log("ran")
        raise ValueError("no")

    site.dispatcher.dispatch(site.app, "fails", None)
    site.run_until_drained()
    heard = site.names("AttemptStarting", "ran", "AttemptEnded", "JobGaveUp")
    run = ["AttemptStarting", "ran", "AttemptEnded"]
    assert heard == [*run, *run, "JobGaveUp"]
    assert site.records("JobGaveUp")[0]["error"] == "ValueError: no"


def test_every_queued_listener_of_an_event_runs_with_its_own_tries(site: Site) -> None:
    @queued_listener(site.app, "order-placed", tries=2)
    def ships(context: JobContext, payload: object) -> None:
        site.log("ships", [payload, context.attempt])
        if context.attempt == 1:
            raise ValueError("again")

    @queued_listener(site.app, "order-placed")
    def bills(context: JobContext, payload: object) -> None:
        site.log("bills", payload)

    @queued_listener(site.app, "order-lost")
    def weeps(context: JobContext, payload: object) -> None:
        site.log("weeps", payload)

    for _ in range(2):
        # The same event again, as an emitter that got no answer would.
        sent = site.dispatcher.emit(site.app, "order-placed", {"order": 1}, event_id="e1")
    assert [result.status for result in sent] == ["duplicate", "duplicate"]
    site.run_until_drained(workers=2)
    assert site.records("ships") == [[{"order": 1}, 1], [{"order": 1}, 2]]
    assert site.records("bills") == [{"order": 1}]
    assert site.records("weeps") == []
    assert site.store.list() == ()


def test_each_notifiable_is_told_once(site: Site) -> None:
    @notification(site.app, "paid", tries=2)
    def paid(context: JobContext, notifiable: str, payload: dict[str, int]) -> None:
        site.log("told", [notifiable, payload["sum"]])

    for _ in range(2):
        site.dispatcher.notify(
            site.app, "paid", ["ann", "bob", "cyd", "bob"], {"sum": 5}, notification_id="n1"
        )
    site.run_until_drained(workers=2)
    assert sorted(site.records("told")) == [["ann", 5], ["bob", 5], ["cyd", 5]]
    with pytest.raises(ValueError, match="unknown job 'notification/gone'"):
        site.dispatcher.notify(site.app, "gone", ["ann"])
