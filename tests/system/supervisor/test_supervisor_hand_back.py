"""A worker dies with jobs in hand: what goes back, and that it goes back once, in time."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from .scripted_broker import ScriptedBroker
from .supervised import Supervised, wait_for

pytestmark = pytest.mark.cluster


def hold_four(supervised: Supervised, broker: ScriptedBroker) -> tuple[int, Path]:
    """Have one worker run `a`, and `b`, `c`, `d` behind it; return its pid and `a`'s gate."""
    gate = supervised.root / "gate"
    supervised.config["workers"] = 1
    for name in "abcd":
        broker.push("until_file", name, file=str(gate))
    supervised.start()
    wait_for(lambda: "a" in supervised.running(), f"job a\n{supervised.log()}")
    return supervised.running()["a"], gate


def test_unstarted_jobs_go_back_uncharged_within_a_second(
    supervised: Supervised, broker: ScriptedBroker
) -> None:
    pid, gate = hold_four(supervised, broker)
    os.kill(pid, signal.SIGKILL)
    wait_for(lambda: supervised.lines("handbacks.jsonl"), "the hand-back")
    (line,) = supervised.lines("handbacks.jsonl")
    (death,) = supervised.lines("deaths.jsonl")
    assert (line["result"], line["pid"], line["lease"]) == ("sent", pid, "lease-1")
    assert (line["unstarted"], line["ran"]) == (["b", "c", "d"], ["a"])
    assert (death["pid"], death["signal"], death["exit"]) == (pid, signal.SIGKILL, None)
    assert 0 <= line["t_ns"] - death["t_ns"] < 1_000_000_000
    (sent,) = broker.requests("/transaction")
    assert sent.body["requiredLeases"] == ["lease-1"]
    gate.touch()
    wait_for(lambda: len(supervised.notes("done")) == 4, "the jobs, again")
    attempts = {(note[2], note[3]) for note in supervised.notes("started")}
    assert attempts == {("a", "1"), ("a", "2"), ("b", "1"), ("c", "1"), ("d", "1")}
    assert len(broker.requests("/transaction")) == 1


def test_a_retry_that_had_arrived_is_left_out_and_the_jobs_behind_it_go_back(
    supervised: Supervised, broker: ScriptedBroker
) -> None:
    supervised.config["workers"] = 1
    broker.keeps_answer = lambda word, body: word == "/transaction" and "requiredLeases" not in body
    broker.push("throw_once", "a")
    for name in "bc":
        broker.push("quick", name)
    supervised.start()
    wait_for(lambda: broker.requests("/transaction"), f"the retry\n{supervised.log()}")
    (note,) = supervised.notes("started")
    os.kill(int(note[4]), signal.SIGKILL)
    wait_for(lambda: len(supervised.notes("done")) == 3, f"the jobs\n{supervised.log()}")
    attempts = [(note[2], note[3]) for note in supervised.notes("started")]
    assert sorted(attempts) == [("a", "1"), ("a", "2"), ("b", "1"), ("c", "1")]
    # The jobs may have run before the master has written down what the broker answered.
    wait_for(lambda: len(supervised.lines("handbacks.jsonl")) == 2, "the rest on record")
    first, rest = supervised.lines("handbacks.jsonl")
    assert (first["result"], first["ran"], first["unstarted"]) == ("refused", ["a"], ["b", "c"])
    assert (rest["result"], rest["ran"], rest["unstarted"]) == ("sent", [], ["b", "c"])


def test_jobs_behind_an_undelivered_dead_letter_go_back_though_their_lease_is_not_renewed(
    supervised: Supervised, broker: ScriptedBroker
) -> None:
    supervised.config["workers"] = 1
    supervised.config["worker"]["tries"] = 1
    supervised.config["renewal"].update(interval_s=0.2)
    broker.swallows = lambda word, body: (
        body.get("status") == "dlq" and body["leaseId"] == "lease-1"
    )
    broker.push("throw", "a")
    for name in "bc":
        broker.push("quick", name)
    supervised.start()
    wait_for(lambda: broker.requests("/ack"), f"the dead letter\n{supervised.log()}")
    (note,) = supervised.notes("started")
    asked = len(broker.requests("/extend"))
    os.kill(int(note[4]), signal.SIGKILL)
    wait_for(lambda: len(supervised.notes("done")) == 2, f"the jobs\n{supervised.log()}")
    renewed = [seen.path for seen in broker.requests("/extend")[asked:]]
    assert not any("lease-1/" in path for path in renewed)
    attempts = [(note[2], note[3]) for note in supervised.notes("started")]
    assert sorted(attempts) == [("a", "1"), ("b", "1"), ("c", "1")]
    line = supervised.lines("handbacks.jsonl")[0]
    assert (line["result"], line["ran"], line["unstarted"]) == ("sent", ["a"], ["b", "c"])


def test_a_graceful_stop_leaves_no_process_and_the_worker_hands_back_itself(
    supervised: Supervised, broker: ScriptedBroker
) -> None:
    pid, gate = hold_four(supervised, broker)
    assert supervised.process is not None
    supervised.process.send_signal(signal.SIGTERM)
    wait_for(lambda: supervised.status()["state"] == "terminating", "the stop")
    gate.touch()
    assert supervised.process.wait(15) == 0
    assert [note[2] for note in supervised.notes("started")] == ["a"]
    assert all(line["result"] == "skipped" for line in supervised.lines("handbacks.jsonl"))
    assert len(broker.requests("/transaction")) == 1
    assert [m.job for m in broker.ready] == ["b", "c", "d"]
    assert [m.payload["_job"].get("attempts", 0) for m in broker.ready] == [0, 0, 0]
    (death,) = supervised.lines("deaths.jsonl")
    assert (death["pid"], death["exit"]) == (pid, 0)


def test_a_worker_that_outlives_the_grace_is_killed_and_its_jobs_go_back(
    supervised: Supervised, broker: ScriptedBroker
) -> None:
    supervised.config["shutdown_grace_s"] = 0.5
    supervised.config["worker"]["timeout_s"] = 0.4
    supervised.config["worker"]["tries"] = 0
    pid, _ = hold_four(supervised, broker)
    os.kill(pid, signal.SIGSTOP)
    assert supervised.stop() == 0
    (death,) = supervised.lines("deaths.jsonl")
    assert death["signal"] == signal.SIGKILL
    (line,) = supervised.lines("handbacks.jsonl")
    assert (line["result"], line["unstarted"]) == ("sent", ["b", "c", "d"])


def test_nothing_is_sent_when_the_lease_was_lost(
    supervised: Supervised, broker: ScriptedBroker
) -> None:
    pid, _ = hold_four(supervised, broker)
    broker.mood = "lost"
    wait_for(lambda: supervised.lines("deaths.jsonl"), "the fence")
    wait_for(lambda: supervised.lines("handbacks.jsonl"), "the decision")
    (line,) = supervised.lines("handbacks.jsonl")
    assert (line["pid"], line["result"]) == (pid, "skipped")
    assert "fenced" in line["reason"]
    assert broker.requests("/transaction") == []


def test_a_lease_that_cannot_be_renewed_fences_its_worker_before_it_ends(
    supervised: Supervised, broker: ScriptedBroker
) -> None:
    supervised.config["worker"].update(retry_after_s=4.5, timeout_s=4.0)
    supervised.config["renewal"].update(interval_s=0.3, grace_s=0.3)
    broker.mood = "failing"
    pid, _ = hold_four(supervised, broker)
    popped = broker.requests("/pop/")[0].t_ns
    wait_for(lambda: supervised.lines("deaths.jsonl"), "the fence")
    (death,) = supervised.lines("deaths.jsonl")
    assert death["pid"] == pid
    assert death["t_ns"] < popped + 4_500_000_000
    assert len(broker.requests("/extend")) >= 2


def test_renewals_ask_for_the_whole_lease(supervised: Supervised, broker: ScriptedBroker) -> None:
    _, gate = hold_four(supervised, broker)
    wait_for(lambda: len(broker.requests("/extend")) >= 2, "two renewals")
    assert all(seen.body == {"seconds": 8} for seen in broker.requests("/extend"))
    gate.touch()
    wait_for(lambda: len(supervised.notes("done")) == 4, "the jobs")


@pytest.mark.parametrize(
    ("bug", "sent"),
    [("crash-charges-prefetched", 0), ("hand-back-twice", 2), ("hand-back-after-expiry", 1)],
)
def test_planted_bugs_do_what_they_say(
    supervised: Supervised, broker: ScriptedBroker, bug: str, sent: int
) -> None:
    supervised.config["bugs"] = [bug]
    supervised.config["worker"].update(retry_after_s=3.5, timeout_s=3.0, block_for_s=0.1)
    supervised.config["renewal"].update(interval_s=0.3, timeout_s=0.3, grace_s=0.2, margin_s=0.2)
    supervised.config["hand_back_timeout_s"] = 0.5
    pid, _ = hold_four(supervised, broker)
    os.kill(pid, signal.SIGKILL)
    wait_for(lambda: len(supervised.lines("handbacks.jsonl")) >= max(1, sent), "the bug")
    transactions = broker.requests("/transaction")
    assert len(transactions) == sent
    if bug == "hand-back-twice":
        assert "requiredLeases" not in transactions[1].body
        ids = [
            {i["transactionId"] for o in t.body["operations"] for i in o.get("items", ())}
            for t in transactions
        ]
        assert ids[0].isdisjoint(ids[1])
    if bug == "hand-back-after-expiry":
        (death,) = supervised.lines("deaths.jsonl")
        assert transactions[0].t_ns > death["t_ns"] + 2_000_000_000
        assert "requiredLeases" not in transactions[0].body
