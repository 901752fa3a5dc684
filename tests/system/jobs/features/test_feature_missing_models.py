"""Jobs whose payload names something that is gone."""

from __future__ import annotations

import pytest

from atleastonce.system.jobs import JobContext, MissingModel

from .one_node import FeatureBench

pytestmark = pytest.mark.cluster

USERS = {7: "Ada"}


def find(payload: dict[str, int]) -> str:
    if payload["user"] not in USERS:
        raise MissingModel(f"no user {payload['user']}")
    return USERS[payload["user"]]


def test_handler_is_called_with_what_the_payload_names(on_node: FeatureBench) -> None:
    @on_node.app.job("greet", resolve=find)
    def greet(context: JobContext, user: str) -> None:
        on_node.log("greeted", user)

    on_node.dispatch("greet", {"user": 7})
    on_node.run_until_drained()
    assert on_node.records("greeted") == ["Ada"]


def test_job_is_dropped_without_a_trace_when_it_says_so(on_node: FeatureBench) -> None:
    @on_node.app.job("gone", resolve=find, delete_when_missing=True, unique_for_s=600)
    def gone(context: JobContext, user: str) -> None:
        on_node.log("ran", user)

    on_node.dispatch("gone", {"user": 8})
    on_node.run_until_drained()
    assert on_node.outcomes() == ["skipped"]
    assert on_node.records("ran") == []
    assert on_node.own.dead_letters() == []
    # Its lock is gone with it.
    assert on_node.dispatch("gone", {"user": 8}).status == "queued"


def test_job_is_given_up_at_once_otherwise(on_node: FeatureBench) -> None:
    @on_node.app.job("lost", resolve=find, tries=5)
    def lost(context: JobContext, user: str) -> None:
        on_node.log("ran", user)

    on_node.dispatch("lost", {"user": 9})
    on_node.run_until_drained()
    assert on_node.attempts() == [1]
    assert on_node.records("ran") == []
    assert [error for _, error in on_node.own.dead_letters()] == ["MissingModel: no user 9"]
    assert on_node.give_up()["cause"] == "failed"
