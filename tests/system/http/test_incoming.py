"""What a query parameter means."""

from __future__ import annotations

import pytest

from atleastonce.system.http.incoming import WHOLE_MAX, whole
from atleastonce.system.http.request import PopRequest
from atleastonce.system.http.routes import route


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("0", 0),
        ("-0", 0),
        ("12", 12),
        ("-12", -12),
        ("0000000000000012", 12),
        ("9999999999", WHOLE_MAX),
        ("10000000000", WHOLE_MAX),
        ("-4704315476899392", -WHOLE_MAX),
        ("9" * 5000, WHOLE_MAX),
        (None, None),
        ("", None),
        ("-", None),
        ("--1", None),
        ("1.5", None),
        ("1e3", None),
        ("٣", None),
        (" 1", None),
    ],
)
def test_whole_numbers_have_a_bound_and_anything_else_counts_as_absent(
    text: str | None, number: int | None
) -> None:
    assert whole(text) == number


@pytest.mark.parametrize(
    ("timeout", "wait_ms"),
    [("-4704315476899392", 0), ("99999999999999", 60_000), ("50", 50), ("soon", 30_000)],
)
def test_a_pop_waits_no_longer_than_it_is_told_however_long_the_number(
    timeout: str, wait_ms: int
) -> None:
    target = f"/api/v1/pop/queue/q?wait=true&timeout={timeout}"
    found = route("GET", target, {}, b"", "r")
    assert isinstance(found, PopRequest)
    assert found.wait_ms == wait_ms
