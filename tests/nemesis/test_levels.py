"""Which level a run gets, for what its faults need and what the machine passed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from atleastonce.nemesis.levels import (
    CHOICES,
    CONTROL_GROUPS,
    FILTER,
    LOOP_EXT4,
    NETWORK,
    PIDFD,
    POWERS,
    PRIVATE_WORLD,
    PRLIMIT,
    RESETS,
    SECCOMP,
    SWITCH,
    TIME,
    Finding,
    LackingPowerError,
    UnknownPowerError,
    choose_level,
    missing_of,
)

ALL = (
    *(PIDFD, PRLIMIT, SECCOMP, PRIVATE_WORLD, NETWORK, FILTER, RESETS, SWITCH, TIME),
    *(LOOP_EXT4, CONTROL_GROUPS),
)
ROOT_ONLY = (LOOP_EXT4, CONTROL_GROUPS)


def found(*failed: str) -> list[Finding]:
    """What the probes of a machine found on which these failed."""
    return [
        Finding(name, name not in failed, "EPERM" if name in failed else "seen", "…", "be root")
        for name in ALL
    ]


def needing(*powers: str) -> dict[str, frozenset[str]]:
    return {"some-fault": frozenset(powers)}


@pytest.mark.parametrize(
    ("powers", "number"),
    [
        ((), 0),
        (("signals", "disk-hooks", "limits", "sync-gate"), 0),
        (("links",), 1),
        (("signals", "packets"), 1),
        (("time-namespace",), 1),
        (("real-ext4", "links"), 2),
        (("messages",), 0),
        (("links", "messages"), 1),
    ],
)
def test_auto_goes_as_high_as_the_faults_need_and_no_higher(
    powers: tuple[str, ...], number: int
) -> None:
    assert choose_level("auto", needing(*powers), found()).number == number


def test_auto_cuts_links_at_level_0_where_there_is_no_private_world() -> None:
    level = choose_level("auto", needing("links"), found(PRIVATE_WORLD, *ROOT_ONLY))

    assert level.number == 0
    assert "links" in level.powers


def test_refusal_names_fault_power_level_and_the_level_that_has_it() -> None:
    with pytest.raises(LackingPowerError) as refused:
        choose_level("0", {"packet-loss": frozenset({"packets"})}, found(*ROOT_ONLY))

    assert str(refused.value) == (
        "nemesis 'packet-loss' needs 'packets' (lose, repeat, reorder and corrupt packets), "
        "which level 0 lacks; choose --level 1"
    )


def test_refusal_where_no_level_has_it_names_the_probe_and_its_remedy() -> None:
    with pytest.raises(LackingPowerError) as refused:
        choose_level("auto", needing("real-ext4"), found(*ROOT_ONLY))

    assert "which level 1 lacks; level 2 would have it, but loop-mounted ext4: EPERM; be root" in (
        str(refused.value)
    )


def test_level_that_the_machine_lacks_is_refused_with_the_highest_one_it_has() -> None:
    with pytest.raises(LackingPowerError) as refused:
        choose_level("2", {}, found(CONTROL_GROUPS))

    assert str(refused.value) == (
        "level 2 cannot be had: control groups: EPERM; be root, or choose --level 1"
    )


def test_unknown_power_is_named() -> None:
    with pytest.raises(UnknownPowerError, match="unknown power 'magic'; choose from: signals"):
        choose_level("auto", needing("magic"), found())


@given(
    st.sampled_from(CHOICES),
    st.sets(st.sampled_from(sorted(POWERS))),
    st.sets(st.sampled_from(ALL)),
)
def test_chosen_level_is_had_and_covers_every_need(
    asked: str, powers: set[str], failed: set[str]
) -> None:
    findings = found(*failed)
    try:
        level = choose_level(asked, needing(*powers), findings)
    except LackingPowerError as refusal:
        told = str(refusal)
    else:
        told = ""
        assert powers <= level.powers
        assert asked in ("auto", str(level.number))
        assert level.number == 0 or not missing_of(level.number, findings)
    assert "\n" not in told


def test_messages_are_told_apart_at_level_1_by_the_switch_alone() -> None:
    needs = {"deaf": frozenset({"messages"}), "loss": frozenset({"packets"})}

    with pytest.raises(LackingPowerError) as refused:
        choose_level("1", needs, found(SWITCH))

    assert "'deaf' needs 'messages'" in str(refused.value)
    assert "level 1 lacks" in str(refused.value)
    assert "packet switch: EPERM" in str(refused.value)


@given(st.sets(st.sampled_from(ALL)))
def test_higher_level_has_the_powers_of_the_lower_ones_or_says_what_it_lacks(
    failed: set[str],
) -> None:
    findings = found(*failed)

    for number in (1, 2):
        if not missing_of(number, findings):
            assert not missing_of(number - 1, findings)
