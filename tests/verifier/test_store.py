"""Run folders."""

from __future__ import annotations

from pathlib import Path

import pytest

from atleastonce.verifier.errors import UsageError
from atleastonce.verifier.store import make_run_folder, open_run


def test_run_folder_is_named_by_workload_nemesis_and_time(tmp_path: Path) -> None:
    run = make_run_folder(tmp_path, "jobs", "kill-leader")

    assert run.path.parent == tmp_path / "jobs-kill-leader"
    assert run.path.name.endswith("Z")
    assert run.attempts.is_dir()


def test_latest_names_the_newest_run(tmp_path: Path) -> None:
    first = make_run_folder(tmp_path, "jobs", "none")
    second = make_run_folder(tmp_path, "jobs", "none")

    assert first.path != second.path
    assert (tmp_path / "latest").resolve() == second.path


@pytest.mark.parametrize("store", ["file/store", "file"])
def test_store_that_takes_no_files_is_named(tmp_path: Path, store: str) -> None:
    (tmp_path / "file").write_text("not a folder")

    with pytest.raises(UsageError, match="cannot be written"):
        make_run_folder(tmp_path / store, "jobs", "none")


@pytest.mark.parametrize(
    ("folder", "words"), [("nowhere", "no run folder"), (".", "no scenario.json")]
)
def test_what_is_no_run_folder_is_refused(tmp_path: Path, folder: str, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        open_run(tmp_path / folder)
