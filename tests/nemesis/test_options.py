"""Options and events of faults: checked when a plan is read, in one line that says all."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
import pytest
from msgspec import Meta

from atleastonce.histories.ops import Json
from atleastonce.nemesis.events import UnknownEventError, fault_of
from atleastonce.nemesis.fault import Fault
from atleastonce.nemesis.fields import default_of, fields_of
from atleastonce.nemesis.options import BadOptionError, check_options, options_of
from atleastonce.nemesis.plan import decode_plan, encode_plan
from atleastonce.nemesis.plan_check import check_plan
from atleastonce.nemesis.spec import NemesisSpec


class Shape(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    share: Annotated[float, Meta(ge=0, le=1)] = 0.5
    mode: Literal["a", "b"] = "a"
    count: Annotated[int, Meta(ge=1)] = 3
    ends: tuple[str, ...] = ()


SPEC = NemesisSpec(name="x", sentence="does something", target="one", options=Shape)


def fault(**options: Json) -> Fault:
    return Fault(id="x-1", kind="x", target="one", at_s=0, duration_s=1, options=options)


def test_options_that_are_left_out_have_their_defaults() -> None:
    told = fault(share=0.25)
    check_options(SPEC, told)
    assert options_of(told, Shape) == Shape(share=0.25)
    assert {name: default_of(field) for name, field in fields_of(Shape).items()} == {
        "share": 0.5,
        "mode": "a",
        "count": 3,
        "ends": (),
    }


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"share": 2},
            "fault x-1: options.share 2 is not allowed; it takes a number from 0 to 1",
        ),
        (
            {"mode": "c"},
            "fault x-1: options.mode \"c\" is not allowed; it takes 'a' or 'b'",
        ),
        (
            {"count": 0},
            "fault x-1: options.count 0 is not allowed; it takes an integer from 1",
        ),
        (
            {"size": 1},
            "fault x-1: options.size 1 is not an option of x; it takes share, mode, count, ends",
        ),
    ],
)
def test_an_option_that_is_not_allowed_is_named_with_what_is(
    options: dict[str, Json], message: str
) -> None:
    with pytest.raises(BadOptionError) as caught:
        check_options(SPEC, fault(**options))
    assert str(caught.value) == message


def test_a_kind_without_options_takes_none() -> None:
    told = Fault(
        id="a", kind="kill-leader", target="leader", at_s=0, duration_s=1, options={"b": 1}
    )
    with pytest.raises(BadOptionError, match="b 1 is not an option of kill-leader; it takes none"):
        check_plan([told])


def kill(id_: str, after: str) -> Fault:
    return Fault(id=id_, kind="kill-leader", target="leader", at_s=1, duration_s=1, after=after)


def test_a_fault_may_wait_for_the_run_or_for_another_fault() -> None:
    plan = (kill("a", "first-job-started"), kill("b", "healed:a"), kill("c", "leader-changed"))
    assert decode_plan(encode_plan(plan)) == plan


@pytest.mark.parametrize(
    ("after", "message"),
    [
        ("sunrise", "fault b: after 'sunrise' is no event; choose from: first-job-started"),
        ("healed:", "'healed:' is no event"),
        ("healed:z", "fault b: after 'healed:z' names no other fault; choose from: a"),
        ("healed:b", "names no other fault"),
    ],
)
def test_an_event_that_cannot_come_is_refused(after: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        check_plan([kill("a", ""), kill("b", after)])


def test_events_of_faults_name_the_fault() -> None:
    assert fault_of("healed:kill-leader-1") == "kill-leader-1"
    assert fault_of("first-job-started") is None
    with pytest.raises(UnknownEventError):
        fault_of("first-job-started:x")


def test_a_fault_without_options_and_event_is_written_without_them() -> None:
    assert set(kill("a", "").plain()) == {"id", "kind", "target", "at_s", "duration_s", "choice"}
    assert kill("a", "healed:b").plain()["after"] == "healed:b"
