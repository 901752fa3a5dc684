"""The attempt log: one write a record, 512 bytes each, and a reader that guesses nothing."""

from __future__ import annotations

import json
import os
import zlib
from pathlib import Path

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from atleastonce.histories import attempt_reader
from atleastonce.histories.attempt_reader import FileColumns, read_file
from atleastonce.histories.attempts import (
    EVENTS,
    OUTCOMES,
    RECORD_BYTES,
    AttemptLog,
    AttemptRecord,
    encode_record,
    payload_digest,
)
from atleastonce.histories.errors import UnknownVersionError
from atleastonce.histories.folder import read_attempts
from atleastonce.histories.interning import Names

COLUMNS = ("event", "t_ns", "job", "run", "attempt", "outcome", "lease")


def record(**changes: object) -> AttemptRecord:
    plain = AttemptRecord(
        v=1,
        e="started",
        t_ns=1_000,
        wall_ns=2_000,
        job="job-1",
        run="run-1",
        attempt=1,
        host="here",
        boot="b007",
        pid=77,
        worker="w1",
        lease="lease-1",
        code="v1",
    )
    return msgspec.structs.replace(plain, **changes)


def write(path: Path, records: list[AttemptRecord]) -> Path:
    path.write_bytes(b"".join(encode_record(entry) for entry in records))
    return path


def test_record_is_512_bytes_and_carries_its_checksum() -> None:
    line = encode_record(record())
    assert len(line) == RECORD_BYTES
    assert line.endswith(b" \n")
    told = json.loads(line)
    rest = line[len(b'{"crc":"00000000",') :].rstrip()
    assert told["crc"] == f"{zlib.crc32(rest):08x}"
    assert {**told, "e": "started", "job": "job-1", "attempt": 1} == told


@pytest.mark.parametrize("text", ["x" * 9000, "é" * 9000, '"\\\n' * 900, "\U0001f600" * 500])
def test_long_error_is_cut_so_that_the_record_fits(text: str) -> None:
    line = encode_record(record(e="ended", outcome="threw", error=text))
    assert len(line) == RECORD_BYTES
    assert text.startswith(json.loads(line)["error"])


def test_ids_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ValueError, match="leave no room in 512 bytes"):
        encode_record(record(job="j" * 600))


def test_log_writes_what_happened_and_the_reader_reads_it(tmp_path: Path) -> None:
    log = AttemptLog(tmp_path, code="v1", worker="w1")
    log.prefetched("a", 1, "l1")
    log.started("a", "r1", 1, "l1")
    log.ended("a", "r1", "threw", "oh \ud800 no")
    log.acked("a", "r1")
    log.gave_up("a", "r1", "exception", 1, True, payload_digest({"n": 1}))
    log.gave_up("b", None, "max_attempts", 2, False, None)
    log.close()
    table = read_attempts(tmp_path)
    assert [EVENTS[event] for event in table.event] == [
        "prefetched",
        "started",
        "ended",
        "acked",
        "gave_up",
        "gave_up",
    ]
    assert table.attempt.tolist() == [1, 1, 1, 1, 1, 3]
    assert table.run.tolist() == [-1, 0, 0, 0, 0, -1]
    assert OUTCOMES[table.outcome[2]] == "threw"
    assert (table.gave_up[5].cause, table.gave_up[5].ran) == ("max_attempts", False)
    (process,) = table.processes
    assert (process.pid, process.worker, process.code) == (os.getpid(), "w1", "v1")
    assert Path(process.file).name.startswith(f"{process.boot[:8]}-{os.getpid()}-")
    file, told = table.records([2])[0]
    assert (file, told.error) == (Path(process.file).name, "oh ? no")


def test_log_is_durable_on_the_host_when_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[int] = []
    monkeypatch.setattr(os, "fdatasync", synced.append)
    AttemptLog(tmp_path, "v1", "w1", durability="host").prefetched("a", 1, None)
    assert len(synced) == 1


def test_forked_child_writes_a_file_of_its_own(tmp_path: Path) -> None:
    log = AttemptLog(tmp_path, "v1", "w1")
    log.prefetched("a", 1, "l1")
    child = os.fork()
    if child == 0:
        log.prefetched("b", 1, "l1")
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    log.prefetched("c", 1, "l1")
    table = read_attempts(tmp_path)
    by_pid = {process.pid: process.rows for process in table.processes}
    assert by_pid == {os.getpid(): 2, child: 1}
    assert table.damage == []


def test_last_record_cut_at_any_byte_is_torn_and_tolerated(tmp_path: Path) -> None:
    whole = write(tmp_path / "whole", [record(), record(t_ns=2_000)]).read_bytes()
    path = tmp_path / "torn"
    for cut in range(RECORD_BYTES + 1, 2 * RECORD_BYTES, 37):
        path.write_bytes(whole[:cut])
        columns = read_file(path, Names())
        assert (len(columns.event), columns.torn, columns.damage) == (1, True, None)


@settings(max_examples=60)
@given(
    rows=st.integers(1, 60),
    bad=st.integers(0, 59),
    byte=st.integers(0, RECORD_BYTES - 1),
    flip=st.integers(1, 255),
)
def test_any_changed_byte_is_damage_at_its_record(
    tmp_path_factory: pytest.TempPathFactory, rows: int, bad: int, byte: int, flip: int
) -> None:
    path = tmp_path_factory.mktemp("flip") / "log"
    write(path, [record(t_ns=1_000 + row, job=f"job-{row:02}") for row in range(rows)])
    data = bytearray(path.read_bytes())
    at = (bad % rows) * RECORD_BYTES + byte
    data[at] ^= flip
    path.write_bytes(data)
    columns = read_file(path, Names())
    same = len(columns.event) == rows and columns.damage is None
    if not same:
        assert columns.damage is not None
        assert columns.damage.offset == (bad % rows) * RECORD_BYTES
    else:
        blank = bytes(data[at : at + 1]).isspace() or data[at] ^ flip == ord(" ")
        assert blank or chr(data[at]).lower() == chr(data[at] ^ flip).lower()


def test_unknown_version_is_refused_by_name(tmp_path: Path) -> None:
    path = write(tmp_path / "log", [record(), record(v=9)])
    with pytest.raises(UnknownVersionError, match=r"log: format version 9, this reader knows 1"):
        read_file(path, Names())


@pytest.mark.parametrize(
    ("second", "reason"),
    [
        ({"t_ns": 999}, "time goes back"),
        ({"pid": 78}, "pid differs"),
        ({"code": "v2"}, "code differs"),
        ({"boot": "other"}, "boot differs"),
    ],
)
def test_record_that_cannot_belong_to_the_file_is_damage(
    tmp_path: Path, second: dict[str, object], reason: str
) -> None:
    path = write(tmp_path / "log", [record(), record(**second)])
    columns = read_file(path, Names())
    assert len(columns.event) == 1
    assert columns.damage is not None
    assert reason in columns.damage.reason


RECORDS = st.lists(
    st.fixed_dictionaries(
        {
            "e": st.sampled_from(["prefetched", "started", "ended", "acked", "gave_up"]),
            "job": st.sampled_from(["a", "b", "job-77", 'q"uote', "back\\slash", "ümlaut"]),
            "attempt": st.integers(1, 12),
            "lease": st.sampled_from([None, "l1", "l2"]),
            "outcome": st.sampled_from(OUTCOMES),
        }
    ),
    min_size=1,
    max_size=120,
)


def _columns(path: Path) -> tuple[FileColumns, list[bytes]]:
    jobs = Names()
    return read_file(path, jobs), list(jobs.keys)


@settings(max_examples=40)
@given(records=RECORDS)
def test_templates_read_what_the_json_reader_reads(
    tmp_path_factory: pytest.TempPathFactory, records: list[dict[str, object]]
) -> None:
    path = tmp_path_factory.mktemp("alike") / "log"
    entries = []
    for number, told in enumerate(records):
        changes = {**told, "t_ns": 1_000 + number, "run": f"r{number % 7}"}
        if told["e"] != "ended":
            del changes["outcome"]
        if told["e"] == "prefetched":
            changes["run"] = None
        if told["e"] == "gave_up":
            changes |= {"cause": "exception", "attempts": 1, "ran": True, "digest": "00"}
        entries.append(record(**changes))
    write(path, entries)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(attempt_reader, "TEMPLATE_ROWS_MIN", 2)
        fast, fast_jobs = _columns(path)
        patch.setattr(attempt_reader, "TEMPLATE_ROWS_MIN", 10_000)
        slow, slow_jobs = _columns(path)
    assert fast.damage is None
    assert slow.damage is None
    assert fast.gave_up == slow.gave_up
    for name in ("event", "t_ns", "attempt", "outcome"):
        np.testing.assert_array_equal(getattr(fast, name), getattr(slow, name))
    assert [fast_jobs[n] for n in fast.job] == [slow_jobs[n] for n in slow.job]
    for name in ("run", "lease"):
        pairs = set(zip(getattr(fast, name).tolist(), getattr(slow, name).tolist(), strict=True))
        assert len({left for left, _ in pairs}) == len(pairs) == len({right for _, right in pairs})


def test_digest_does_not_depend_on_the_order_of_keys() -> None:
    assert payload_digest({"a": 1, "b": [2]}) == payload_digest({"b": [2], "a": 1})
    assert payload_digest({"a": 1}) != payload_digest({"a": 2})
    assert len(payload_digest(None)) == 32
