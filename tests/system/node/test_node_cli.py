"""The command `atleastonce`: what it prints, what it refuses, and that it changes nothing."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from atleastonce.system.broker.commands import Batch, Push, PushItem, encode_batch
from atleastonce.system.node.dumping import dump, open_folder, verify
from atleastonce.system.node.node import NodeSettings
from atleastonce.system.raft.messages import Entry, EntryKind, HardState
from atleastonce.system.storage.disk import RealDisk
from atleastonce.system.storage.errors import DamagedLogError
from atleastonce.system.storage.wal import Wal, WalLimits

from .conftest import MakeCluster

PROGRAM = (
    "import sys; from atleastonce.system.node.cli import main; sys.argv[0] = 'atleastonce'; main()"
)


def atleastonce(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", PROGRAM, *arguments],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )


def refused(*arguments: str) -> str:
    """Run what is expected to be refused; its one line."""
    done = atleastonce(*arguments)
    assert done.returncode == 2, done
    assert done.stdout == ""
    (line,) = done.stderr.splitlines()
    return line


def push_entry(index: int) -> Entry:
    command = Push("r", (PushItem("q", "p", f"t{index}", b'"secret payload"'),))
    data = encode_batch(Batch(1_000_000 + index, bytes(8), (command,)))
    return Entry(2, index, EntryKind.COMMAND, data)


def write_log(root: Path, entries: list[Entry]) -> None:
    disk = RealDisk(root)
    log, _ = Wal.open(disk, "log", WalLimits(segment_bytes=700))
    log.append(HardState(2, "n1"), None, [])
    for entry in entries:
        log.append(None, None, [entry])
        log.sync()
    log.close()
    disk.close()


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A data folder with a first entry and nineteen pushes in several segments."""
    noop = Entry(2, 1, EntryKind.NOOP, b"")
    write_log(tmp_path / "data", [noop, *(push_entry(index) for index in range(2, 21))])
    return tmp_path / "data"


def snapshot(folder: Path) -> dict[str, tuple[bytes, int]]:
    return {
        str(path): (path.read_bytes(), path.stat().st_mtime_ns)
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def test_verify_data_counts_what_is_there_and_changes_nothing(data: Path) -> None:
    before = snapshot(data)
    done = atleastonce("broker", "verify-data", str(data), "--json")
    assert done.returncode == 0, done.stderr
    facts = json.loads(done.stdout)
    assert facts["valid"] is True
    assert (facts["firstIndex"], facts["lastIndex"], facts["term"]) == (1, 20, 2)
    assert facts["segments"] == len(list((data / "log").glob("*.wal"))) > 1
    assert facts["tornBytes"] == 0
    assert "entries 1 to 20" in atleastonce("broker", "verify-data", str(data)).stdout
    assert snapshot(data) == before


def test_a_torn_tail_is_no_damage_and_is_left_alone(data: Path) -> None:
    last = max((data / "log").glob("*.wal"))
    last.write_bytes(last.read_bytes() + b"\x01\x02\x03")
    before = snapshot(data)
    done = atleastonce("broker", "verify-data", str(data), "--json")
    assert (done.returncode, json.loads(done.stdout)["tornBytes"]) == (0, 3)
    assert snapshot(data) == before


def test_damage_is_named_with_file_offset_and_remedy(data: Path) -> None:
    first = min((data / "log").iterdir())
    content = bytearray(first.read_bytes())
    content[400:408] = bytes(8)
    first.write_bytes(content)
    before = snapshot(data)
    done = atleastonce("broker", "verify-data", str(data))
    assert done.returncode == 70
    damage, remedy = done.stderr.splitlines()
    assert str(first) in damage
    assert "damaged at byte" in damage
    assert remedy.startswith("remedy: ")
    assert snapshot(data) == before
    dumped = atleastonce("broker", "dump-log", str(data))
    assert dumped.returncode == 70
    assert dumped.stderr == done.stderr
    assert 0 < len(dumped.stdout.splitlines()) < 20


def test_a_missing_segment_is_damage(data: Path) -> None:
    for path in sorted((data / "log").iterdir()):
        content = path.read_bytes()
        path.unlink()
        done = atleastonce("broker", "verify-data", str(data))
        assert done.returncode == 70
        assert f"{path}: damaged" in done.stderr
        path.write_bytes(content)


def test_an_entry_that_no_machine_can_read_is_damage(tmp_path: Path) -> None:
    write_log(tmp_path, [Entry(2, 1, EntryKind.COMMAND, b"\xc1 no batch")])
    done = atleastonce("broker", "verify-data", str(tmp_path))
    assert done.returncode == 70
    assert "the commands of entry 1 cannot be read" in done.stderr


def dumped(data: Path, *options: str) -> list[dict[str, Any]]:
    done = atleastonce("broker", "dump-log", str(data), *options)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_dump_log_prints_every_record_and_payloads_only_when_asked(data: Path) -> None:
    records = dumped(data)
    assert [record["seq"] for record in records] == list(range(1, len(records) + 1))
    assert (records[0]["kind"], records[0]["lastIndex"]) == ("base", 0)
    assert records[1]["kind"] == "hard-state"
    assert (records[1]["term"], records[1]["votedFor"]) == (2, "n1")
    entries = [record for record in records if record["kind"] == "entry"]
    assert [entry["index"] for entry in entries] == list(range(1, 21))
    assert entries[0]["entry"] == "noop"
    assert entries[1]["commands"] == ["Push"]
    assert "secret" not in json.dumps(records)
    whole = [record for record in dumped(data, "--commands") if record["kind"] == "entry"]
    (command,) = whole[1]["commands"]
    assert command["command"] == "Push"
    assert command["items"][0][2] == "t2"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("broker", "verify-data", "/nonexistent"), "/nonexistent"),
        (("broker", "dump-log", "/dev/null"), "/dev/null"),
        (("broker", "verify-data"), "DATA_DIR"),
        (("broker", "status", "ftp://somewhere"), "ftp://somewhere"),
        (("broker", "status", "http://[::1"), "http://[::1"),
        (("broker", "status", "http://127.0.0.1:99999"), "99999"),
        (("broker", "status", "--timeout", "0"), "timeout"),
        (("broker", "status", "--ca", "/nonexistent", "https://127.0.0.1:1"), "/nonexistent"),
        (("broker", "status", "--cert", "/nonexistent", "https://127.0.0.1:1"), "/nonexistent"),
        (("broker", "run", "/nonexistent.json"), "/nonexistent.json"),
        (("broker", "dance"), "dance"),
        (("--colour",), "--colour"),
    ],
)
def test_bad_input_is_one_line_and_status_2(arguments: tuple[str, ...], words: str) -> None:
    assert words in refused(*arguments)


def test_an_empty_folder_holds_no_log(tmp_path: Path) -> None:
    assert "holds no log" in refused("broker", "verify-data", str(tmp_path))


@pytest.mark.cluster
def test_status_and_members_tell_what_the_nodes_say(make_cluster: MakeCluster) -> None:
    cluster = make_cluster(3)
    cluster.start()
    leader = cluster.leader()
    urls = [f"http://127.0.0.1:{node.port}" for node in cluster.nodes.values()]
    done = atleastonce("broker", "status", *urls)
    assert done.returncode == 0, done
    lines = done.stdout.splitlines()
    assert [line.split()[:2] for line in lines] == [[name, "healthy"] for name in cluster.nodes]
    assert sum("  leader of term" in line for line in lines) == 1
    done = atleastonce("broker", "members", urls[0], "--json")
    voters = json.loads(done.stdout)["voters"]
    assert {voter["node"]: voter["leads"] for voter in voters} == {
        name: name == leader.name for name in cluster.nodes
    }
    in_use = refused("broker", "verify-data", str(leader.config["data_dir"]))
    assert "in use by another process" in in_use
    cluster.nodes["n3"].kill()
    done = atleastonce("broker", "status", *urls, "--timeout", "2")
    assert done.returncode == 1
    assert "unreachable" in done.stdout.splitlines()[2]
    done = atleastonce("broker", "members", urls[2], "--timeout", "2")
    assert done.returncode == 1
    assert "no node answers" in done.stderr


@pytest.mark.cluster
def test_run_is_a_node_and_ends_as_one(make_cluster: MakeCluster) -> None:
    node = make_cluster(1).nodes["n1"]
    node.config.update(die_with_parent=False, parent_pid=None)
    path = Path(node.config["data_dir"]).parent / "own.json"
    path.write_text(json.dumps(node.config))
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM, "broker", "run", str(path)], stderr=subprocess.PIPE
    ) as process:
        node.process = process
        assert process.stderr is not None
        for line in process.stderr:
            if json.loads(line)["event"] == "listening":
                break
        os.kill(process.pid, signal.SIGTERM)
        assert process.wait(20) == 0


@settings(
    max_examples=80,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(st.integers(0, 2**32), st.integers(0, 2**32), st.sampled_from(["flip", "cut", "insert"]))
def test_whatever_a_segment_holds_it_is_read_or_called_damaged(
    tmp_path: Path, where: int, seed: int, act: str
) -> None:
    root = tmp_path / "fuzz"
    if not root.exists():
        write_log(root, [push_entry(index) for index in range(1, 12)])
    segments = sorted((root / "log").glob("*.wal"))
    path = segments[where % len(segments)]
    original = path.read_bytes()
    content, at = bytearray(original), seed % len(original)
    if act == "flip":
        content[at] ^= 1 + seed % 255
    elif act == "cut":
        del content[at : at + 1 + seed % 40]
    else:
        content[at:at] = seed.to_bytes(8, "big")
    path.write_bytes(content)
    folder = open_folder(root)
    try:
        is_whole = 0 <= verify(folder)["lastIndex"] <= 11
    except DamagedLogError as error:
        is_whole = not error.remedy
    if not is_whole:
        with pytest.raises(DamagedLogError):
            list(dump(folder, with_commands=True))
    folder.close()
    path.write_bytes(original)


def test_a_nodes_settings_do_not_show_the_token() -> None:
    shown = NodeSettings("n1", {}, b"the cluster's secret", 5000, "1", frozenset())
    assert "secret" not in repr(shown)
