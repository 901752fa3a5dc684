"""Requests as files: whole, private, and read once."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from atleastonce.system.supervisor.control_files import (
    ControlFileError,
    control_path,
    list_controls,
    take_control,
    write_control,
)
from atleastonce.system.supervisor.core.control import Action, Control

CONTROL = Control(Action.RESTART, "instance", "ab" * 16, 5, 3600)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "controls").mkdir(mode=0o700)
    return tmp_path


def test_a_request_is_read_once(root: Path) -> None:
    path = write_control(root, CONTROL)
    assert path.stat().st_mode & 0o777 == 0o600
    assert list_controls(root) == [path]
    assert take_control(path) == CONTROL
    assert list_controls(root) == []
    assert take_control(path) is None


def test_the_oldest_comes_first_and_other_files_are_none(root: Path) -> None:
    paths = []
    for age, nonce in ((1, "aaaaaaaa"), (3, "bbbbbbbb"), (2, "cccccccc")):
        path = write_control(root, Control(Action.PAUSE, "i", nonce, 1, 60))
        os.utime(path, (1000 - age, 1000 - age))
        paths.append(path)
    (root / "controls" / "dddddddd.new").touch()
    (root / "controls" / "notes.json").touch()
    assert list_controls(root) == [paths[1], paths[2], paths[0]]


def put(root: Path, text: bytes, mode: int = 0o600) -> Path:
    path = control_path(root, CONTROL.nonce)
    path.write_bytes(text)
    path.chmod(mode)
    return path


@pytest.mark.parametrize(
    ("text", "mode", "reason"),
    [
        (b"", 0o600, "truncated"),
        (b"{}", 0o600, "missing required field"),
        (b'{"v":1,"action":"dance","instance":"i","nonce":"n","asked_us":1,"ttl_s":60}', 0o600,
         "dance"),
        (b'{"v":1,"action":"pause","instance":"i","nonce":"n","asked_us":1,"ttl_s":60}', 0o600,
         "holds the request 'n'"),
        (b"x" * 4097, 0o600, "4097 bytes; at most 4096"),
        (b"{}", 0o640, "others may use it"),
        (b"{}", 0o602, "others may use it"),
    ],
)  # fmt: skip
def test_what_is_no_request_of_this_user_is_refused_and_gone(
    root: Path, text: bytes, mode: int, reason: str
) -> None:
    path = put(root, text, mode)
    with pytest.raises(ControlFileError, match=reason):
        take_control(path)
    assert not path.exists()


def test_a_link_or_a_pipe_in_its_place_is_refused(root: Path) -> None:
    real = put(root, b"{}")
    link = control_path(root, "cd" * 16)
    link.symlink_to(real)
    with pytest.raises(ControlFileError, match="symbolic links"):
        take_control(link)
    pipe = control_path(root, "ef" * 16)
    os.mkfifo(pipe, 0o600)
    with pytest.raises(ControlFileError, match="no regular file"):
        take_control(pipe)


def test_somebody_elses_file_is_refused(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_control(root, CONTROL)
    monkeypatch.setattr(os, "getuid", lambda: 12_345)
    with pytest.raises(ControlFileError, match="belongs to uid"):
        take_control(path)
