"""The failed-job store."""

from __future__ import annotations

import os
import sqlite3
from dataclasses import replace
from pathlib import Path

import pytest

from atleastonce.system.jobs import FailedJob, FailedStore, list_failed

ROW = FailedJob("j", "work", "q", "{}", "d", "exception", "E: x", 3, 1.5, "p-0001", "7", "t")


def test_row_is_read_back_as_it_was(tmp_path: Path) -> None:
    store = FailedStore(tmp_path / "failed.db")
    store.add(ROW)
    store.close()
    again = FailedStore(tmp_path / "failed.db")
    assert again.get("j") == ROW
    assert again.get("k") is None
    again.close()


def test_rows_come_oldest_first_and_replace_each_other_by_job(tmp_path: Path) -> None:
    store = FailedStore(tmp_path / "failed.db")
    store.add(replace(ROW, id="late", failed_at=9.0))
    store.add(ROW)
    store.add(replace(ROW, attempts=4))
    assert [(row.id, row.attempts) for row in list_failed(store)] == [("j", 4), ("late", 3)]
    assert store.remove("j")
    assert not store.remove("j")
    store.close()


def test_file_is_durable_at_every_row(tmp_path: Path) -> None:
    store = FailedStore(tmp_path / "failed.db")
    store.add(ROW)
    assert store._connection is not None
    assert store._connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    assert store._connection.execute("PRAGMA synchronous").fetchone() == (2,)
    store.close()


def test_file_that_cannot_be_opened_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(sqlite3.Error):
        FailedStore(tmp_path / "no" / "failed.db").add(ROW)


def test_several_processes_fill_one_file(tmp_path: Path) -> None:
    store = FailedStore(tmp_path / "failed.db")
    pids = []
    for worker in range(4):
        pid = os.fork()
        if pid == 0:
            status = 1
            try:
                for n in range(5):
                    store.add(replace(ROW, id=f"{worker}-{n}"))
                status = 0
            finally:
                os._exit(status)
        pids.append(pid)
    assert [os.waitpid(pid, 0)[1] for pid in pids] == [0] * 4
    assert len(store.list()) == 20
    store.close()
