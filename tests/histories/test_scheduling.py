"""`scheduling.jsonl`: what was sampled reads back; what cannot be read is damage, never silence."""

from __future__ import annotations

from pathlib import Path

import pytest

from atleastonce.histories.errors import UnknownVersionError
from atleastonce.histories.lines import write_lines
from atleastonce.histories.notation_parser import NotationError, parse
from atleastonce.histories.scheduling import SchedulingSample, Wait, read_scheduling

SAMPLES = [
    SchedulingSample(from_ns=2, t_ns=3, own=0.2, waits={"n1": Wait(waited=0.7, ran=0.1)}),
    SchedulingSample(from_ns=1, t_ns=2, late_ns=5, others=0.5, stolen=0.1),
]


def test_samples_read_back(tmp_path: Path) -> None:
    write_lines(tmp_path / "scheduling.jsonl", SAMPLES)
    assert read_scheduling(tmp_path / "scheduling.jsonl") == SAMPLES


def test_folder_holds_samples_in_order_of_time(tmp_path: Path) -> None:
    folder = parse("0.0 dispatch a\n9.0 drained\n").write(tmp_path / "run")
    write_lines(folder.scheduling, SAMPLES)
    assert folder.read().scheduling == (SAMPLES[1], SAMPLES[0])


def test_folder_of_an_older_version_has_no_samples(tmp_path: Path) -> None:
    folder = parse("0.0 dispatch a\n9.0 drained\n").write(tmp_path / "run")
    assert not folder.scheduling.exists()
    assert folder.read().scheduling == ()


def test_torn_last_sample_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "scheduling.jsonl"
    write_lines(path, SAMPLES)
    path.write_bytes(path.read_bytes()[:-9])
    assert read_scheduling(path) == SAMPLES[:1]


def test_sample_that_cannot_be_read_is_damage(tmp_path: Path) -> None:
    folder = parse("0.0 dispatch a\n9.0 drained\n").write(tmp_path / "run")
    folder.scheduling.write_bytes(b'{"v":1,"from_ns":"soon","t_ns":2}\n')
    (damage,) = folder.read().damage
    assert damage.file == str(folder.scheduling)


def test_sample_of_another_version_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "scheduling.jsonl"
    path.write_bytes(b'{"v":2,"from_ns":1,"t_ns":2}\n')
    with pytest.raises(UnknownVersionError, match="version 2"):
        read_scheduling(path)


def test_notation_writes_half_seconds_and_refuses_unknown_figures(tmp_path: Path) -> None:
    text = "0.0 dispatch a\n2.0 starved n1 until=4 waited=0.8 ran=0.1\n9.0 drained\n"
    samples = parse(text).write(tmp_path / "run").read().scheduling
    assert [(s.t_ns - s.from_ns) / 1e9 for s in samples] == [0.5] * 4
    assert samples[0].waits == {"n1": Wait(waited=0.8, ran=0.1)}
    with pytest.raises(NotationError, match="slept"):
        parse("2.0 starved n1 until=4 slept=1")
