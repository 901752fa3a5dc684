"""What rules, delays, names and payloads promise before anything runs."""

from __future__ import annotations

from typing import Any

import pytest

from atleastonce.system.jobs import (
    Application,
    ConnectionSettings,
    JobContext,
    RateLimited,
    Skip,
    ThrottlesExceptions,
    WithoutOverlapping,
    decode_job,
    prepare_dispatch,
)
from atleastonce.system.jobs.context import JobReleased
from atleastonce.system.jobs.names import shared_name
from atleastonce.system.jobs.payload import Deadline, Envelope, JobBody, encode_payload, renewed

CONTEXT = JobContext("j", "work", 1, 3, "r", "L", "q", "p")
SETTINGS = ConnectionSettings(endpoints=(("127.0.0.1", 1),), partitions=4)


def nothing(context: JobContext, payload: object) -> None:
    del context, payload


def test_job_that_uses_no_rule_travels_in_the_bytes_that_it_always_had() -> None:
    app = Application(SETTINGS)
    app.job("work")(nothing)
    prepared = prepare_dispatch(app, "work", {"n": 1}, job_id="j1", partition="p", tries=2)
    assert encode_payload(Envelope(prepared.body)) == (
        b'{"_job":{"job":"work","id":"j1","data":{"n":1},"partition":"p","tries":2}}'
    )


def test_what_a_payload_does_not_say_is_not_there() -> None:
    body = decode_job(b'{"_job":{"job":"work","id":"j1","data":1,"unheard-of":2}}')
    assert (body.deadline, body.unique) == (None, None)


def test_rules_travel_in_fields_of_their_own() -> None:
    app = Application(SETTINGS)
    app.job("send", retry_for_s=2, unique_for_s=9, unique_key=str, unique_until="processing")(
        nothing
    )
    prepared = prepare_dispatch(app, "send", 7)
    body = decode_job(encode_payload(Envelope(prepared.body)))
    assert body.deadline is not None
    assert body.deadline.span_us == 2_000_000
    assert body.unique is not None
    assert (body.unique.name, body.unique.until) == ("unique/send/7", "processing")


def test_deadline_is_renewed_by_its_span() -> None:
    body = JobBody(job="a", id="a", data=decode_job(_JOB).data, deadline=Deadline(100, 7))
    assert renewed(body, 1000).deadline == Deadline(1007, 7)
    assert renewed(decode_job(_JOB), 1000).deadline is None


_JOB = b'{"_job":{"job":"a","id":"a","data":1}}'


@pytest.mark.parametrize(
    ("rules", "text"),
    [
        ({"retry_for_s": 0}, "retry_for_s of job 'work' is 0; it must be above 0"),
        ({"retry_for_s": float("inf")}, "retry_for_s of job 'work' is inf"),
        ({"max_exceptions": 0}, "max_exceptions of job 'work' is 0; allowed: 1 or more"),
        ({"unique_for_s": -1}, "unique_for_s of job 'work' is -1; it must be above 0"),
        ({"unique_until": "end", "unique_key": str}, "is unique without unique_for_s"),
        ({"unique_for_s": 1, "unique_until": "never"}, "'never'; allowed: end, processing"),
        ({"delete_when_missing": True}, "delete_when_missing of job 'work' needs a resolve"),
        ({"backoff_s": (1, 9e9)}, "backoff_s of job 'work' is 9e\\+09; allowed: 0 to 7776000"),
    ],
)
def test_rule_that_cannot_work_is_refused_in_one_line(rules: dict[str, Any], text: str) -> None:
    with pytest.raises(ValueError, match=text) as refused:
        Application().job("work", **rules)(nothing)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: WithoutOverlapping("k", expire_after_s=0), "expire_after_s of WithoutOverlapping"),
        (lambda: WithoutOverlapping("k", -1), "release_after_s of WithoutOverlapping is -1"),
        (lambda: RateLimited("k", 0, 1), "limit of RateLimited is 0; allowed: 1 or more"),
        (lambda: RateLimited("k", 1, 1.5), "per_s of RateLimited is 1.5; allowed: whole seconds"),  # type: ignore[arg-type]
        (lambda: ThrottlesExceptions(0, 1), "limit of ThrottlesExceptions is 0"),
        (lambda: ThrottlesExceptions(1, 0), "decay_s of ThrottlesExceptions is 0"),
        (Skip, "exactly one of when and unless"),
    ],
)
def test_middleware_that_cannot_work_is_refused_in_one_line(make: Any, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        make()


def test_middleware_without_a_broker_says_where_it_belongs() -> None:
    with pytest.raises(RuntimeError, match="runs in a worker only"):
        RateLimited("k", 1, 1)(CONTEXT, None, nothing)


@pytest.mark.parametrize("delay_s", [-1, 90 * 86_400 + 1, float("nan")])
def test_release_beyond_what_a_timer_can_do_is_refused(delay_s: float) -> None:
    with pytest.raises(ValueError, match="allowed: 0 to 7776000"):
        CONTEXT.release(delay_s)
    with pytest.raises(JobReleased):
        CONTEXT.release(90 * 86_400)


def test_delay_is_named_once() -> None:
    from datetime import UTC, datetime

    with pytest.raises(ValueError, match="delay_s is 3 beside a delay_until"):
        prepare_dispatch(SETTINGS, "work", 1, delay_s=3, delay_until=datetime.now(UTC))


def test_key_that_is_no_text_is_refused_where_it_is_made() -> None:
    app = Application(SETTINGS)
    app.job("send", unique_for_s=9, unique_key=lambda payload: payload)(nothing)
    with pytest.raises(TypeError, match="unique_key of job 'send' is 7; allowed: a text"):
        prepare_dispatch(app, "send", 7)
    with pytest.raises(ValueError, match="backoff_s is -1; allowed: 0 to"):
        prepare_dispatch(SETTINGS, "send", 7, backoff_s=(-1,))


def test_names_of_locks_differ_where_their_parts_do_and_fit_the_broker() -> None:
    assert shared_name("k", "a/b", "c") != shared_name("k", "a", "b/c")
    assert shared_name("k", "a#b\x07") == "k/a%23b%07"
    long = shared_name("k", "x" * 999)
    assert len(long) < 200
    assert long != shared_name("k", "x" * 998)
    assert long == shared_name("k", "x" * 999)
