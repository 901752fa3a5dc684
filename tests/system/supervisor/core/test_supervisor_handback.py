"""What becomes of a dead worker's leased jobs."""

from __future__ import annotations

import copy

import pytest

from atleastonce.system.supervisor.core.handback import (
    DeadLease,
    HandBackPolicy,
    Json,
    Send,
    Skip,
    decide_hand_back,
    decide_repeat,
    without_fence,
)

SECOND = 1_000_000
POLICY = HandBackPolicy(budget_us=SECOND, margin_us=SECOND // 2)
NOW = 100 * SECOND
LONG = DeadLease("L1", NOW + 5 * SECOND, is_fenced=False)


def test_a_dead_workers_jobs_are_sent_at_once_under_the_lease() -> None:
    assert decide_hand_back(NOW, LONG, "L1", False, POLICY) == Send(NOW, is_fenced=True)


@pytest.mark.parametrize(
    ("lease", "journal_lease", "shutdown_said", "word"),
    [
        (LONG, None, False, "owes nothing"),
        (LONG, "L2", False, "another lease"),
        (LONG, "L1", True, "by itself"),
        (DeadLease("L1", NOW + 5 * SECOND, is_fenced=True), "L1", False, "fenced"),
        (DeadLease("L1", NOW + 1_500_000, is_fenced=False), "L1", False, "too little"),
        (DeadLease("L1", NOW - SECOND, is_fenced=False), "L1", False, "too little"),
    ],
)
def test_nothing_is_sent_when_it_could_do_harm(
    lease: DeadLease, journal_lease: str | None, shutdown_said: bool, word: str
) -> None:
    decision = decide_hand_back(NOW, lease, journal_lease, shutdown_said, POLICY)
    assert isinstance(decision, Skip)
    assert word in decision.reason


def test_the_last_moment_to_send() -> None:
    just = DeadLease("L1", NOW + 1_500_001, is_fenced=False)
    assert isinstance(decide_hand_back(NOW, just, "L1", False, POLICY), Send)


def test_a_confirmed_hand_back_is_never_repeated() -> None:
    assert decide_repeat(Send(NOW), NOW) is None


def test_planted_bug_never_hands_back() -> None:
    bugs = frozenset({"crash-charges-prefetched"})
    assert isinstance(decide_hand_back(NOW, LONG, "L1", False, POLICY, bugs), Skip)


def test_planted_bug_sends_once_more_without_the_fence_and_only_once() -> None:
    bugs = frozenset({"hand-back-twice"})
    first = decide_hand_back(NOW, LONG, "L1", False, POLICY, bugs)
    assert first == Send(NOW)
    again = decide_repeat(first, NOW, bugs)
    assert again == Send(NOW, is_fenced=False)
    assert decide_repeat(again, NOW, bugs) is None


def test_planted_bug_waits_for_the_lease_to_end() -> None:
    bugs = frozenset({"hand-back-after-expiry"})
    decision = decide_hand_back(NOW, LONG, "L1", False, POLICY, bugs)
    assert isinstance(decision, Send)
    assert decision.at_us > LONG.expiry_us
    assert not decision.is_fenced
    assert isinstance(decide_hand_back(NOW, LONG, "L1", True, POLICY, bugs), Skip)


def test_an_unfenced_copy_names_no_lease_and_has_fresh_ids() -> None:
    transaction: Json = {
        "operations": [
            {"type": "ack", "transactionId": "t1", "partitionId": "7", "leaseId": "L1"},
            {"type": "push", "items": [{"queue": "q", "transactionId": "c1", "payload": 1}]},
            {"type": "push", "queue": "q", "transactionId": "c2", "payload": 2},
        ],
        "requiredLeases": ["L1"],
        "timers": [],
    }
    before = copy.deepcopy(transaction)
    ids = iter(["f1", "f2"])
    assert without_fence(transaction, lambda: next(ids)) == {
        "operations": [
            {"type": "ack", "transactionId": "t1", "partitionId": "7"},
            {"type": "push", "items": [{"queue": "q", "transactionId": "f1", "payload": 1}]},
            {"type": "push", "queue": "q", "transactionId": "f2", "payload": 2},
        ],
        "timers": [],
    }
    assert transaction == before
