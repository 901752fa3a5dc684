"""Operations: pairs, well-formedness, and a fast reader that reads what the plain one reads."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from atleastonce.histories import history_reader
from atleastonce.histories.dispatches import FAIL, OK, UNKNOWN, DispatchTable
from atleastonce.histories.errors import DamagedEvidenceError, UnknownVersionError
from atleastonce.histories.history_reader import History, read_history
from atleastonce.histories.interning import Names
from atleastonce.histories.ops import Json, Op, OpType, OpWriter, find_malformed, pair_ops, read_ops


def asked(job: str, **changes: Json) -> dict[str, Json]:
    return {
        "job": job,
        "kind": "short",
        "queue": "jobs",
        "partition": "p-0001",
        "tries": 3,
        "backoff_s": [1.0, 2.0],
        "timeout_s": 5.0,
        "delay_s": 0.0,
        "not_before_ns": None,
        "digest": "d" * 32,
        "resend": False,
        **changes,
    }


def write(path: Path, lines: list[tuple[int | str, OpType, str, Json, int]]) -> Path:
    writer = OpWriter(path)
    for process, type_, f, value, time_ns in lines:
        writer.write(process, type_, f, value, time_ns, node="n1")
    writer.close()
    return path


def test_dispatches_become_columns_and_other_operations_stay(tmp_path: Path) -> None:
    path = write(
        tmp_path / "history.jsonl",
        [
            (1, "invoke", "dispatch", asked("a"), 10),
            (2, "invoke", "dispatch", asked("b", not_before_ns=99, tries=1), 11),
            ("x", "invoke", "drain", None, 12),
            (1, "ok", "dispatch", {"status": "queued", "offset": 7}, 13),
            (2, "fail", "dispatch", None, 14),
            ("x", "ok", "drain", {"pending": 0}, 15),
            (1, "invoke", "dispatch", asked("a", resend=True), 16),
            (1, "info", "dispatch", None, 17),
            (1, "invoke", "dispatch", asked("c"), 18),
        ],
    )
    jobs = Names()
    history = read_history(path, jobs)
    table = history.dispatches
    assert history.damage is None
    assert [jobs[number] for number in table.job] == ["a", "b", "a", "c"]
    assert table.result.tolist() == [OK, FAIL, UNKNOWN, UNKNOWN]
    assert table.done_ns.tolist() == [13, 14, 17, -1]
    assert table.offset.tolist() == [7, -1, -1, -1]
    assert table.tries.tolist() == [3, 1, 3, 3]
    assert table.not_before_ns.tolist() == [-1, 99, -1, -1]
    assert table.timeout_ns.tolist() == [5_000_000_000] * 4
    assert table.backoffs == [(1.0, 2.0)]
    assert table.partitions[int(table.partition[0])] == "jobs/p-0001"
    assert [op.f for op in history.ops] == ["drain", "drain"]
    assert [op.time_ns for op in table.ops([0])] == [10, 13]
    assert len(read_ops(path)) == 9


def test_torn_last_line_is_tolerated(tmp_path: Path) -> None:
    path = write(tmp_path / "history.jsonl", [(1, "invoke", "dispatch", asked("a"), 10)])
    with path.open("ab") as file:
        file.write(b'{"index":1,"proc')
    history = read_history(path, Names())
    assert (len(history.dispatches), history.torn, history.damage) == (1, True, None)
    assert len(read_ops(path)) == 1


def test_bad_line_is_damage_with_its_offset(tmp_path: Path) -> None:
    path = write(tmp_path / "history.jsonl", [(1, "invoke", "dispatch", asked("a"), 10)])
    good = path.stat().st_size
    with path.open("ab") as file:
        file.write(b"nonsense\n")
    history = read_history(path, Names())
    assert history.damage is not None
    assert history.damage.offset == good
    with pytest.raises(DamagedEvidenceError, match=f"at byte {good}"):
        read_ops(path)


def test_unknown_version_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "history.jsonl", [(1, "invoke", "dispatch", asked("a"), 10)])
    path.write_bytes(path.read_bytes().replace(b'"v":1', b'"v":2'))
    with pytest.raises(UnknownVersionError, match="version 2"):
        read_history(path, Names())
    with pytest.raises(UnknownVersionError, match="version 2"):
        read_ops(path)


OPS = st.lists(
    st.tuples(
        st.integers(1, 3),
        st.sampled_from(["invoke", "invoke", "ok", "info"]),
        st.sampled_from(["dispatch", "dispatch", "drain"]),
        st.integers(0, 2),
        st.integers(0, 9),
    ),
    max_size=40,
)


@settings(max_examples=150)
@given(steps=OPS, broken_index=st.none() | st.integers(0, 39))
def test_first_malformed_line_is_the_one_that_the_plain_check_finds(
    tmp_path_factory: pytest.TempPathFactory,
    steps: list[tuple[int, OpType, str, int, int]],
    broken_index: int | None,
) -> None:
    ops = []
    now = 100
    for index, (process, type_, f, step, back) in enumerate(steps):
        now += step - (back == 9)
        value: Json = None
        if f == "dispatch" and type_ != "info":
            value = (
                asked(f"j{index}") if type_ == "invoke" else {"status": "queued", "offset": index}
            )
        at = index + (index == broken_index)
        ops.append(Op(index=at, process=process, type=type_, f=f, value=value, time_ns=now))
    path = tmp_path_factory.mktemp("ops") / "history.jsonl"
    lines = [msgspec.json.encode(op) + b"\n" for op in ops]
    path.write_bytes(b"".join(lines))
    expected = find_malformed(ops)
    history = read_history(path, Names())
    if expected is None:
        assert history.damage is None
        pairs = [(a, b) for a, b in pair_ops(ops) if a.f == "dispatch"]
        assert history.dispatches.invoke_ns.tolist() == [a.time_ns for a, _ in pairs]
        assert history.dispatches.done_ns.tolist() == [b.time_ns if b else -1 for _, b in pairs]
    else:
        assert history.damage is not None
        assert history.damage.offset == sum(map(len, lines[: expected.offset]))
        assert history.damage.reason == expected.reason


DISPATCHES = st.lists(
    st.tuples(
        st.text('abcü"\\7', min_size=1, max_size=3),
        st.sampled_from(["p-0001", "p-0002", "p-1", None, 3]),
        st.sampled_from([None, 5, 77, 123]),
        st.sampled_from([1, 3]),
        st.sampled_from([None, 0, 9, 10, 10_000]),
        st.sampled_from(["ok", "ok", "ok", "info", "fail", None]),
    ),
    min_size=1,
    max_size=80,
)


def _plain(history: History, jobs: Names) -> dict[str, list[object]]:
    table = history.dispatches
    told: dict[str, list[object]] = {
        field.name: getattr(table, field.name).tolist()
        for field in fields(DispatchTable)
        if isinstance(getattr(table, field.name), np.ndarray)
    }
    told["job"] = [jobs[number] for number in table.job]
    told["partition"] = [table.partitions[int(number)] for number in table.partition]
    told["backoff"] = [table.backoffs[int(number)] for number in table.backoff]
    return told


@settings(max_examples=60)
@given(dispatches=DISPATCHES)
def test_line_templates_read_what_the_json_reader_reads(
    tmp_path_factory: pytest.TempPathFactory,
    dispatches: list[tuple[str, Json, int | None, int, int | None, OpType | None]],
) -> None:
    lines: list[tuple[int | str, OpType, str, Json, int]] = []
    for number, (job, partition, due, tries, offset, end) in enumerate(dispatches):
        value = asked(job, partition=partition, not_before_ns=due, tries=tries)
        lines.append((number, "invoke", "dispatch", value, 1_000 + number))
        if end is not None:
            answer: Json = {"status": "queued", "offset": offset} if end == "ok" else None
            lines.append((number, end, "dispatch", answer, 1_000 + number))
    path = write(tmp_path_factory.mktemp("lines") / "history.jsonl", lines)
    told = []
    with pytest.MonkeyPatch.context() as patch:
        for rows_min in (2, 10_000):
            patch.setattr(history_reader, "_TEMPLATE_ROWS_MIN", rows_min)
            jobs = Names()
            history = read_history(path, jobs)
            assert history.damage is None
            told.append(_plain(history, jobs))
    assert told[0] == told[1]


def test_history_larger_than_a_block_is_read_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines: list[tuple[int | str, OpType, str, Json, int]] = []
    for number in range(300):
        lines.append((number, "invoke", "dispatch", asked(f"j{number}"), number))
        lines.append((number, "ok", "dispatch", {"status": "queued", "offset": number}, number))
    path = write(tmp_path / "history.jsonl", lines)
    whole = read_history(path, Names()).dispatches
    monkeypatch.setattr(history_reader, "_BLOCK_BYTES", 1_000)
    pieces = read_history(path, Names()).dispatches
    for name in ("job", "invoke_ns", "done_ns", "offset", "at", "done_at"):
        np.testing.assert_array_equal(getattr(whole, name), getattr(pieces, name))
    assert [op.time_ns for op in pieces.ops([299])] == [299, 299]
