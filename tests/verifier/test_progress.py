"""Counting attempts while they happen."""

from __future__ import annotations

from pathlib import Path

from atleastonce.histories.attempts import AttemptLog
from atleastonce.verifier.progress import AttemptTail


def test_counts_grow_with_the_logs_and_nothing_is_counted_twice(tmp_path: Path) -> None:
    tail = AttemptTail(tmp_path)
    log = AttemptLog(tmp_path, "1", "w1")
    log.prefetched("a", 1, "l")
    log.started("a", "r1", 1, "l")

    assert (tail.poll().started, tail.poll().completed) == (1, 0)

    log.ended("a", "r1", "completed")
    log.started("b", "r2", 2, "l")
    log.ended("b", "r2", "threw", "boom")
    log.gave_up("b", "r2", "tries", 2, True, "d")
    other = AttemptLog(tmp_path, "1", "w2")
    other.started("c", "r3", 1, "l")
    progress = tail.poll()

    assert progress.started == 3
    assert progress.completed == 1
    assert progress.failed == 1
    assert progress.retried == 1
    assert progress.given_up == 1
    assert progress.last_ns > 0


def test_torn_record_waits_until_it_is_whole(tmp_path: Path) -> None:
    log = AttemptLog(tmp_path / "whole", "1", "w1")
    log.started("a", "r1", 1, "l")
    [source] = (tmp_path / "whole").iterdir()
    record = source.read_bytes()
    folder = tmp_path / "torn"
    folder.mkdir()
    tail = AttemptTail(folder)

    (folder / "x.jsonl").write_bytes(record[:200])
    assert tail.poll().started == 0
    (folder / "x.jsonl").write_bytes(record)
    assert tail.poll().started == 1


def test_garbage_is_left_to_the_checkers(tmp_path: Path) -> None:
    (tmp_path / "x.jsonl").write_bytes(b"?" * 1024)

    assert AttemptTail(tmp_path).poll().started == 0
