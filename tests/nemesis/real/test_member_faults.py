"""Members that are removed, wiped and taken in again, and nodes whose files are damaged."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec
import pytest

from atleastonce.nemesis.fault import Fault

from .applying import apply, fault
from .dummy_world import DummyWorld


def on(node: str, kind: str, **options: str | float) -> Fault:
    return msgspec.structs.replace(fault(kind), target=node, options=dict(options))


def test_a_member_is_removed_wiped_added_and_promoted(world: DummyWorld, tmp_path: Path) -> None:
    before = world.node_process("n2")
    (result,) = apply(world, tmp_path, on("n2", "rejoin-member"))
    assert result.bit
    assert world.desk.asked == ["remove n2", "add n2", "promote n2"]
    assert world.desk.wiped == ["n2"]
    assert world.node_process("n2") != before
    assert world.desk.roles["n2"] == "voter"
    assert result.evidence["effect"]["changes"] == ["remove n2: done"]
    assert result.evidence["healed"]["changes"] == ["add n2: done", "promote n2: done"]


def test_a_refused_removal_ends_the_cycle_and_is_recorded(
    world: DummyWorld, tmp_path: Path
) -> None:
    world.desk.refuses["remove"] = 1
    before = world.node_process("n1")
    (result,) = apply(world, tmp_path, fault("replace-leader"))
    assert result.bit
    assert result.evidence["effect"]["changes"] == ["remove n1: 409 no_quorum"]
    assert world.desk.wiped == []
    assert world.node_process("n1") == before


def test_a_refused_promotion_is_asked_for_again(world: DummyWorld, tmp_path: Path) -> None:
    world.desk.refuses["promote"] = 2
    (result,) = apply(world, tmp_path, on("n3", "rejoin-member"))
    assert result.bit
    assert world.desk.roles["n3"] == "voter"
    assert world.desk.asked.count("promote n3") == 3


def test_a_wiped_disk_is_replaced_once_its_node_is_back(world: DummyWorld, tmp_path: Path) -> None:
    world.desk.refuses["replace"] = 1
    (result,) = apply(world, tmp_path, on("n2", "wipe-rejoin"))
    assert result.bit
    assert world.desk.asked == ["replace n2", "replace n2"]
    assert world.desk.wiped == ["n2"]
    assert world.started == ["n2"]


def write_data(world: DummyWorld, folder: Path) -> dict[str, bytes]:
    """Give n2 two segments of a log and a checkpoint; returns them by name."""
    world.folder = folder / "data"
    vote = b"\x05\xa7WL" + os.urandom(60)
    files = {
        "log/1.wal": os.urandom(9000),
        "log/2.wal": os.urandom(500) + vote + os.urandom(500),
        "checkpoint/1.mdb": os.urandom(9000),
        "log/MANIFEST": b"v1 here",
        "identity.json": b"{}",
    }
    for name, content in files.items():
        (world.folder / "n2" / name).parent.mkdir(parents=True, exist_ok=True)
        (world.folder / "n2" / name).write_bytes(content)
    return files


def read_data(world: DummyWorld) -> dict[str, bytes]:
    data = world.folder / "n2"
    return {
        str(path.relative_to(data)): path.read_bytes()
        for path in sorted(data.rglob("*"))
        if path.is_file()
    }


@pytest.mark.parametrize("what", ["log", "vote", "checkpoint", "pointer", "identity"])
@pytest.mark.parametrize("how", ["flip", "truncate", "zero"])
def test_a_node_that_refuses_its_damage_gets_its_bytes_back(
    world: DummyWorld, tmp_path: Path, what: str, how: str
) -> None:
    files = write_data(world, tmp_path)
    world.refuses = lambda node: read_data(world) != files
    (result,) = apply(world, tmp_path, on("n2", "damage-file", what=what, how=how))
    assert result.bit, result.reason
    assert result.evidence["healed"]["outcome"] == "refused"
    assert read_data(world) == files
    assert world.desk.asked == []
    assert world.started == ["n2", "n2"]
    assert not (world.folder / "n2.before").exists()


def test_a_node_that_runs_on_damage_is_removed_wiped_and_taken_in_again(
    world: DummyWorld, tmp_path: Path
) -> None:
    write_data(world, tmp_path)
    (result,) = apply(world, tmp_path, on("n2", "damage-file"))
    assert result.evidence["healed"]["outcome"] == "booted"
    assert world.desk.asked == ["remove n2", "add n2", "promote n2"]
    assert world.desk.wiped == ["n2"]


def test_damage_is_told_with_its_place_and_the_bytes(world: DummyWorld, tmp_path: Path) -> None:
    files = write_data(world, tmp_path)
    world.refuses = lambda node: read_data(world) != files
    (result,) = apply(world, tmp_path, on("n2", "damage-file", what="vote", how="flip"))
    told = msgspec.convert(result.evidence["effect"]["damaged"], list[dict[str, str | int]])
    assert [(one["file"], one["length"]) for one in told] == [("2.wal", 1)]
    assert 500 <= int(told[0]["offset"]) < 540
    assert told[0]["before"] == f"{files['log/2.wal'][int(told[0]['offset'])]:02x}"


def test_a_sealed_segment_is_deleted_and_never_the_newest(
    world: DummyWorld, tmp_path: Path
) -> None:
    files = write_data(world, tmp_path)
    world.refuses = lambda node: "log/1.wal" not in read_data(world)
    (result,) = apply(world, tmp_path, on("n2", "delete-segment"))
    assert result.evidence["healed"]["outcome"] == "refused"
    assert read_data(world) == files


def test_an_old_copy_that_ran_is_followed_by_a_new_server(
    world: DummyWorld, tmp_path: Path
) -> None:
    write_data(world, tmp_path)
    (result,) = apply(world, tmp_path, on("n2", "restore-old", age_s=0.1))
    assert result.bit, result.reason
    assert result.evidence["healed"]["outcome"] == "booted"
    assert world.desk.wiped == ["n2"]
    assert not (world.folder / "n2.old").exists()
