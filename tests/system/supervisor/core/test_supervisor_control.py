"""Which requests a supervisor obeys."""

from __future__ import annotations

from dataclasses import replace

import pytest

from atleastonce.system.supervisor.core.control import Action, Control, refuse

SECOND = 1_000_000
CONTROL = Control(Action.PAUSE, "me", "n1", asked_us=100 * SECOND, ttl_s=3600)


@pytest.mark.parametrize(
    ("control", "now_s", "reason"),
    [
        (CONTROL, 100, None),
        (CONTROL, 100 + 3599, None),
        (CONTROL, 100 + 3600, "it is 3600 s old and held for 3600 s"),
        (CONTROL, 99, "it comes from the future"),
        (replace(CONTROL, instance="another"), 100, "it is for instance another"),
        (replace(CONTROL, nonce="used"), 100, "it was taken before"),
        (replace(CONTROL, ttl_s=29), 100, "it holds for 29 s; allowed: 30 to 86400"),
        (replace(CONTROL, ttl_s=86_401), 100, "it holds for 86401 s; allowed: 30 to 86400"),
        (replace(CONTROL, ttl_s=30), 129, None),
        (replace(CONTROL, ttl_s=30), 130, "it is 30 s old and held for 30 s"),
    ],
)
def test_a_request_is_obeyed_once_by_whom_it_names_and_while_it_holds(
    control: Control, now_s: int, reason: str | None
) -> None:
    assert refuse(control, "me", now_s * SECOND, {"used"}) == reason


def test_a_supervisor_may_allow_less() -> None:
    assert refuse(CONTROL, "me", 100 * SECOND, (), 3600) is None
    assert refuse(CONTROL, "me", 100 * SECOND, (), 600) == "it holds for 3600 s; allowed: 30 to 600"
