"""When a disk counts as full, and as free again."""

from __future__ import annotations

from pathlib import Path

import pytest

from atleastonce.system.node.gauge import DiskGauge, Space, folder_space
from atleastonce.system.node.limits import NodeLimits

GIB = 1 << 30


def at(percent: float, total: int = 1000) -> Space:
    used = round(total * percent / 100)
    return Space(used, total - used)


def states(limits: NodeLimits, *spaces: Space) -> list[bool]:
    """Whether the gauge says full after each measurement."""
    found = []
    left = list(spaces)
    gauge = DiskGauge(lambda: left.pop(0), limits)
    for _ in spaces:
        before = gauge.is_full
        assert gauge.look() is (gauge.is_full is not before)
        found.append(gauge.is_full)
    return found


def test_full_from_the_high_mark_until_below_the_low_one() -> None:
    spaces = [at(percent) for percent in (84, 85, 84, 80, 79.9, 84.9, 99, 81, 10)]
    expected = [False, True, True, True, False, False, True, True, False]
    assert states(NodeLimits(), *spaces) == expected


def test_much_free_space_is_never_full_whatever_its_share() -> None:
    terabytes = 4000 * GIB
    assert states(NodeLimits(), at(95, terabytes)) == [False]
    assert states(NodeLimits(disk_enough_bytes=1000 * GIB), at(95, terabytes)) == [True]


def test_a_hundred_percent_switches_the_mark_off() -> None:
    assert states(NodeLimits(disk_high_percent=100), at(100)) == [False]


def test_what_cannot_be_measured_changes_nothing() -> None:
    answers: list[Space | OSError] = [at(90), OSError("gone"), at(90)]

    def measure() -> Space:
        answer = answers.pop(0)
        if isinstance(answer, OSError):
            raise answer
        return answer

    gauge = DiskGauge(measure, NodeLimits())
    assert gauge.look()
    assert not gauge.look()
    assert gauge.is_full
    assert gauge.space is None


def test_a_budget_counts_the_files_of_the_folder(tmp_path: Path) -> None:
    (tmp_path / "log").mkdir()
    (tmp_path / "log" / "a").write_bytes(bytes(600))
    (tmp_path / "b").write_bytes(bytes(150))
    measured = folder_space(tmp_path, 1000)()
    assert measured == Space(750, 250)
    assert folder_space(tmp_path, 700)() == Space(750, 0)
    assert folder_space(tmp_path, None)().free_bytes > 0


@pytest.mark.parametrize(
    ("limits", "words"),
    [
        (NodeLimits(connections_max=0), "connections_max: 0"),
        (NodeLimits(waiting_requests_max=0), "waiting_requests_max: 0"),
        (NodeLimits(waiting_bytes_max=-5), "waiting_bytes_max: -5"),
        (NodeLimits(disk_low_percent=90), "90 and 85"),
        (NodeLimits(disk_high_percent=101), "80 and 101"),
        (NodeLimits(disk_enough_bytes=-1), "disk_enough_bytes: -1"),
        (NodeLimits(data_bytes_max=0), "data_bytes_max: 0"),
    ],
)
def test_limits_that_make_no_sense_are_named(limits: NodeLimits, words: str) -> None:
    assert words in str(limits.trouble())
    assert NodeLimits().trouble() is None
