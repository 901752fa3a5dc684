"""Last-value delivery on the wire: what is refused, what is told, what is counted."""

from __future__ import annotations

import pytest

from .wire import Wire, objects


@pytest.mark.parametrize(
    "parameters", ["", "consumerGroup=__QUEUE_MODE__", "consumerGroup=g&autoAck=true"]
)
def test_conflation_that_cannot_be_meant_is_refused(wire: Wire, parameters: str) -> None:
    record = wire.record("GET", f"/api/v1/pop/queue/q?conflation=true&{parameters}", b"", 400)
    assert "conflation" in str(record["error"])


def test_a_conflating_pop_tells_so_even_when_it_is_empty(wire: Wire) -> None:
    target = "/api/v1/pop/queue/q?conflation=true&consumerGroup=g&subscriptionMode=all"
    empty = wire.record("GET", target)
    assert (empty["conflation"], empty["messages"], empty["partitionsClaimed"]) == (True, [], 0)
    wire.push("a", "b", "c")
    wire.push("d", "e", partition="r")
    found = wire.record("GET", target + "&batch=5")
    messages = objects(found["messages"])
    assert [message["transactionId"] for message in messages] == ["c", "e"]
    assert (found["conflation"], "conflationConflict" in found) == (True, False)
    assert wire.ack(messages[0], consumerGroup="g")["conflated"] == 2


def test_the_groups_first_pop_decides_and_another_wish_is_told(wire: Wire) -> None:
    base = "/api/v1/pop/queue/q?consumerGroup=g"
    assert wire.send("GET", base).status == 204
    wished = wire.record("GET", f"{base}&conflation=true")
    assert (wished["conflationConflict"], "conflation" in wished) == (True, False)
    wire.record("GET", "/api/v1/pop/queue/q?consumerGroup=h&conflation=true")
    for parameter, conflicts in (("&conflation=false", True), ("", False)):
        answer = wire.record("GET", f"/api/v1/pop/queue/q?consumerGroup=h{parameter}")
        assert (answer["conflation"], "conflationConflict" in answer) == (True, conflicts)
    listed = {
        str(row["name"]): row["conflation"]
        for row in wire.records("GET", "/api/v1/consumer-groups")
    }
    assert listed == {"g": False, "h": True}


def test_the_depth_of_a_conflating_group_counts_partitions(wire: Wire) -> None:
    wire.record("GET", "/api/v1/pop/queue/q?consumerGroup=g&conflation=true")
    wire.push("a", "b", "c")
    wire.push("d", "e", partition="r")
    depth = wire.record("GET", "/api/v1/resources/queues/q/depth?group=g")
    assert (depth["pending"], depth["effectivePending"], depth["effectiveReady"]) == (5, 2, 2)
    assert depth["conflation"] is True
    whole = wire.record("GET", "/api/v1/resources/queues/q/depth")
    assert (whole["group"], whole["pending"], whole["conflation"]) == (None, 5, False)
