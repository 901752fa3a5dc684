"""The state directory is private, and one master's at a time."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from atleastonce.system.supervisor.statedir import (
    SOCKET_PATH_BYTES_MAX,
    StateDirectory,
    StateDirectoryError,
    check_private,
    lock_holder,
    make_private,
    open_state_directory,
    try_lock_generation,
)


def test_it_is_made_for_this_user_alone(tmp_path: Path) -> None:
    _, lock = open_state_directory(tmp_path / "deep" / "state")
    assert stat.S_IMODE((tmp_path / "deep" / "state").stat().st_mode) == 0o700
    os.close(lock)


def test_an_open_directory_is_closed_to_others(tmp_path: Path) -> None:
    (tmp_path / "state").mkdir(mode=0o755)
    make_private(tmp_path / "state")
    assert stat.S_IMODE((tmp_path / "state").stat().st_mode) == 0o700


def test_a_link_is_refused(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "state").symlink_to(tmp_path / "real")
    with pytest.raises(StateDirectoryError, match="symbolic link"):
        open_state_directory(tmp_path / "state")


def test_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "state").touch()
    with pytest.raises(StateDirectoryError, match="not a directory"):
        open_state_directory(tmp_path / "state")


def test_a_second_master_is_refused_and_told_who_holds_it(tmp_path: Path) -> None:
    _, lock = open_state_directory(tmp_path / "state")
    with pytest.raises(StateDirectoryError, match=f"pid {os.getpid()}"):
        open_state_directory(tmp_path / "state")
    os.close(lock)
    _, again = open_state_directory(tmp_path / "state")
    os.close(again)


def test_a_generation_is_locked_until_its_last_descriptor_closes(tmp_path: Path) -> None:
    directory = StateDirectory(tmp_path)
    lock = try_lock_generation(directory)
    assert lock is not None
    inherited = os.dup(lock)
    os.close(lock)
    assert try_lock_generation(directory) is None
    os.close(inherited)
    again = try_lock_generation(directory)
    assert again is not None
    os.close(again)


def test_what_earlier_workers_left_is_deleted(tmp_path: Path) -> None:
    directory = StateDirectory(tmp_path)
    directory.clear_workers()
    for name in ("7.plan", "7.state", "7.exit"):
        (directory.workers / name).touch()
    directory.clear_workers()
    assert list(directory.workers.iterdir()) == []


def test_a_deep_directory_gets_a_socket_whose_path_fits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    deep = StateDirectory(tmp_path / ("d" * 120))
    deep.root.mkdir()
    path = deep.lease_socket()
    assert len(os.fsencode(path)) <= SOCKET_PATH_BYTES_MAX + len(os.fsencode(tmp_path))
    assert path.parent.parent == tmp_path
    assert path == deep.lease_socket()
    path.touch()
    deep.remove_socket()
    assert not path.parent.exists()


@pytest.mark.parametrize("mode", [0o770, 0o707, 0o777, 0o720])
def test_a_directory_that_others_may_write_to_is_refused(tmp_path: Path, mode: int) -> None:
    (tmp_path / "state").mkdir()
    (tmp_path / "state").chmod(mode)
    with pytest.raises(StateDirectoryError, match=f"mode {mode:04o}, others may write"):
        open_state_directory(tmp_path / "state")


def test_somebody_elses_directory_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "state").mkdir(mode=0o700)
    monkeypatch.setattr(os, "getuid", lambda: 12_345)
    with pytest.raises(StateDirectoryError, match="belongs to uid"):
        open_state_directory(tmp_path / "state")
    with pytest.raises(StateDirectoryError, match="belongs to uid"):
        check_private(tmp_path / "state")


@pytest.mark.parametrize("kind", ["link", "pipe"])
def test_a_lock_that_is_no_plain_file_is_refused(tmp_path: Path, kind: str) -> None:
    (tmp_path / "state").mkdir(mode=0o700)
    lock = tmp_path / "state" / "lock"
    if kind == "link":
        (tmp_path / "elsewhere").touch()
        lock.symlink_to(tmp_path / "elsewhere")
    else:
        os.mkfifo(lock)
    with pytest.raises(StateDirectoryError, match="lock"):
        open_state_directory(tmp_path / "state")


def test_a_looker_changes_nothing_and_refuses_what_others_can_see(tmp_path: Path) -> None:
    (tmp_path / "state").mkdir(mode=0o750)
    with pytest.raises(StateDirectoryError, match="mode 0750; want 0700"):
        check_private(tmp_path / "state")
    assert stat.S_IMODE((tmp_path / "state").stat().st_mode) == 0o750


def test_the_holder_of_a_directory_is_known_and_asking_does_not_take_its_lock(
    tmp_path: Path,
) -> None:
    root = tmp_path / "state"
    root.mkdir(mode=0o700)
    assert lock_holder(root) is None
    _, lock = open_state_directory(root)
    assert lock_holder(root) == os.getpid()
    os.close(lock)
    assert lock_holder(root) is None


def test_requests_to_an_earlier_master_are_deleted(tmp_path: Path) -> None:
    root = tmp_path / "state"
    _, lock = open_state_directory(root)
    os.close(lock)
    (root / "controls" / "aaaaaaaa.json").touch()
    directory, lock = open_state_directory(root)
    assert list(directory.controls.iterdir()) == []
    os.close(lock)
