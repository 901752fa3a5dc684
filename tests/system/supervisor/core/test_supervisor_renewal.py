"""The renewal schedule in virtual time, and the fence of a lease that cannot be kept."""

from __future__ import annotations

import pytest

from atleastonce.system.supervisor.core.renewal import LeaseWatch, RenewalPolicy, Step

SECOND = 1_000_000
MILLI = 1_000
POLICY = RenewalPolicy(
    interval_us=2 * SECOND,
    timeout_us=500 * MILLI,
    endpoints=3,
    grace_us=SECOND,
    margin_us=500 * MILLI,
)
LEASE = 8 * SECOND


def test_budget_and_reserve() -> None:
    assert POLICY.budget_us == 1_500 * MILLI
    assert POLICY.reserve_us == 5_500 * MILLI


@pytest.mark.parametrize(
    ("now_s", "expiry_s", "expected_s"),
    [
        (0, 8, 2.0),  # the interval, while the reserve is far off
        (0, 7, 1.5),  # the reserve begins sooner than the interval ends
        (0, 5, 0.0),  # already inside the reserve
        (3, 2, 3.0),  # never in the past
        (0, 90, 2.0),
    ],
)
def test_next_attempt(now_s: float, expiry_s: float, expected_s: float) -> None:
    at_us = POLICY.next_attempt_us(int(now_s * SECOND), int(expiry_s * SECOND))
    assert at_us == expected_s * SECOND


@pytest.mark.parametrize(
    ("left_us", "fits"),
    [(2_000 * MILLI, False), (2_000 * MILLI + 1, True), (0, False), (-SECOND, False)],
)
def test_an_attempt_needs_its_budget_and_the_margin(left_us: int, fits: bool) -> None:
    assert POLICY.fits(10 * SECOND, 10 * SECOND + left_us) is fits


def test_the_lease_is_counted_from_the_request() -> None:
    watch = LeaseWatch(SECOND, LEASE, 3 * SECOND, POLICY)
    assert watch.expiry_us == 9 * SECOND
    watch.renewed(4 * SECOND, 5 * SECOND)
    assert watch.expiry_us == 12 * SECOND


def test_a_late_answer_never_shortens_a_lease() -> None:
    watch = LeaseWatch(5 * SECOND, LEASE, 5 * SECOND, POLICY)
    watch.renewed(4 * SECOND, 6 * SECOND)
    assert watch.expiry_us == 13 * SECOND


def test_a_healthy_lease_is_renewed_every_interval() -> None:
    watch, now_us, renewals = LeaseWatch(0, LEASE, 0, POLICY), 0, 0
    while now_us < 60 * SECOND:
        now_us = watch.next_us
        assert watch.step(now_us) is Step.RENEW
        watch.renewed(now_us, now_us + MILLI)
        renewals += 1
    assert 29 <= renewals <= 31
    assert watch.step(now_us) is Step.WAIT


def test_a_broker_that_never_answers_gets_two_attempts_then_the_fence() -> None:
    watch, now_us = LeaseWatch(0, LEASE, 0, POLICY), 0
    seen: list[tuple[str, int]] = []
    while not seen or seen[-1][0] != "kill":
        now_us = watch.next_us
        step = watch.step(now_us)
        if step is Step.RENEW:
            seen.append(("attempt", now_us))
            now_us += POLICY.budget_us
            watch.failed(now_us)
        elif step is not Step.WAIT:
            seen.append((step.value, now_us))
    names = [name for name, _ in seen]
    assert names[:2] == ["attempt", "attempt"]
    assert names[-2:] == ["term", "kill"]
    term_us, kill_us = seen[-2][1], seen[-1][1]
    assert kill_us <= term_us + POLICY.grace_us
    assert kill_us <= LEASE - POLICY.margin_us
    assert watch.is_fenced


@pytest.mark.parametrize("request_us", range(0, 8 * SECOND, 250 * MILLI))
@pytest.mark.parametrize("answer_us", [MILLI, 400 * MILLI, 1_500 * MILLI])
def test_the_worker_is_dead_a_margin_before_its_lease_ends(request_us: int, answer_us: int) -> None:
    now_us = request_us
    watch = LeaseWatch(0, LEASE, now_us, POLICY)
    step = Step.WAIT
    while step is not Step.KILL:
        now_us = max(now_us, watch.next_us)
        step = watch.step(now_us)
        if step is Step.RENEW:
            assert now_us + POLICY.budget_us + POLICY.margin_us < watch.expiry_us
            now_us += answer_us
            watch.failed(now_us)
    assert now_us <= max(request_us, watch.expiry_us - POLICY.margin_us)


def test_a_hold_that_comes_too_late_is_killed_without_grace() -> None:
    watch = LeaseWatch(0, LEASE, 7_800 * MILLI, POLICY)
    assert watch.step(7_800 * MILLI) is Step.KILL
    assert watch.is_fenced


def test_one_failure_is_retried_after_a_second() -> None:
    watch = LeaseWatch(0, LEASE, 0, POLICY)
    assert watch.step(2 * SECOND) is Step.RENEW
    watch.failed(2 * SECOND + MILLI)
    assert watch.next_us == 3 * SECOND + MILLI
    assert watch.step(watch.next_us) is Step.RENEW
    watch.renewed(watch.next_us, watch.next_us)
    assert not watch.is_fenced
