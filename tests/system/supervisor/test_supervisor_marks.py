"""Processes that are known by the state directory under which they were started."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from atleastonce.system.supervisor.orphans import MARK, kill_marked, mark_of

Started = list[subprocess.Popen[bytes]]


@pytest.fixture
def started() -> Iterator[Started]:
    made: Started = []
    yield made
    for process in made:
        process.kill()
        process.wait(10)


def start(started: Started, mark: str | None) -> subprocess.Popen[bytes]:
    plain = {key: value for key, value in os.environ.items() if key != MARK}
    environment = plain if mark is None else {**plain, MARK: mark}
    process = subprocess.Popen(["sleep", "600"], env=environment, start_new_session=True)
    started.append(process)
    return process


def test_only_what_was_started_under_the_directory_is_killed(
    tmp_path: Path, started: Started
) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / "link").symlink_to(tmp_path)
    ours = start(started, mark_of(tmp_path))
    others = [
        start(started, None),
        start(started, mark_of(tmp_path / "other")),
        start(started, f"0:0:{tmp_path.resolve()}"),
    ]
    assert kill_marked(tmp_path / "link") == [ours.pid]
    assert ours.wait(10) == -9
    assert kill_marked(tmp_path) == []
    assert [other.poll() for other in others] == [None, None, None]


def test_whoever_asks_is_spared_with_all_above(
    tmp_path: Path, started: Started, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("atleastonce.system.supervisor.orphans.mark_of", lambda root: "x")
    process = start(started, "x")
    monkeypatch.setattr(os, "getpid", lambda: process.pid)
    assert kill_marked(tmp_path) == []
    assert process.poll() is None
