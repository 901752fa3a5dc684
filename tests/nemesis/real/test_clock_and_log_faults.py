"""Clocks that are moved, and logs in which bits flip."""

from __future__ import annotations

import os
import random
from pathlib import Path

import msgspec
import pytest
import trio

from atleastonce.nemesis.clock_shapes import step_us
from atleastonce.nemesis.fault import Fault
from atleastonce.nemesis.log_act import Damage
from atleastonce.nemesis.time_act import within

from .applying import SETTINGS, apply, fault
from .dummy_world import DummyWorld


def bumped(number: int, choice: int) -> Fault:
    return msgspec.structs.replace(fault("bump-clock", number), choice=choice)


def test_bump_clock_moves_the_leaders_time_of_day_and_moves_it_back(
    world: DummyWorld, tmp_path: Path
) -> None:
    before = world.node_process("n1")
    (result,) = apply(world, tmp_path, bumped(1, 7))
    assert result.bit
    assert result.target == "n1"
    evidence = result.evidence["effect"]
    assert evidence["step_s"] == step_us(result.fault) / 1e6
    assert result.evidence["healed"]["seen_s"] == 0.001234
    assert world.errors_us == {"n1": 0}
    assert world.node_process("n1") == before


def test_clocks_are_moved_either_way_by_seconds_and_by_minutes() -> None:
    steps_s = [step_us(bumped(1, choice)) / 1e6 for choice in range(200)]
    assert all(0.5 <= abs(step_s) <= 300 for step_s in steps_s)
    assert sum(step_s > 0 for step_s in steps_s) in range(60, 140)
    assert min(map(abs, steps_s)) < 1
    assert max(map(abs, steps_s)) > 200


def test_a_step_that_the_node_does_not_show_is_no_bite_and_is_undone(
    world: DummyWorld, tmp_path: Path
) -> None:
    world.hides_time_of_day = True
    quick = msgspec.structs.replace(SETTINGS, exit_wait_s=0.2)
    (result,) = apply(world, tmp_path, bumped(1, 7), settings=quick)
    assert not result.bit
    assert "was not seen with its clock moved by" in result.reason
    assert world.errors_us == {"n1": 0}


def write_logs(world: DummyWorld, folder: Path) -> dict[str, bytes]:
    """Give every node a log of which every byte counts; returns them."""
    world.folder = folder / "data"
    logs = {}
    for node in world.nodes():
        file = world.folder / node / "log" / "1.wal"
        file.parent.mkdir(parents=True)
        logs[node] = os.urandom(5000).replace(b"\0", b"x") + bytes(3000)
        file.write_bytes(logs[node])
    return logs


def read_logs(world: DummyWorld) -> dict[str, bytes]:
    return {n: (world.folder / n / "log" / "1.wal").read_bytes() for n in world.nodes()}


@pytest.mark.parametrize(("choice", "hit"), [(0, 2), (1, 3), (2, 3), (3, 2)])
def test_flip_log_damages_most_logs_and_gives_the_bytes_back_to_who_refuses(
    world: DummyWorld, tmp_path: Path, choice: int, hit: int
) -> None:
    logs = write_logs(world, tmp_path)
    world.refuses = lambda node: read_logs(world)[node] != logs[node]
    (result,) = apply(world, tmp_path, msgspec.structs.replace(fault("flip-log"), choice=choice))
    assert result.bit
    assert result.target == "n1,n2,n3"
    damaged = result.evidence["effect"]["damaged"]
    assert isinstance(damaged, dict)
    assert len(damaged) == hit
    assert result.evidence["healed"]["outcomes"] == dict.fromkeys(sorted(damaged), "refused")
    assert read_logs(world) == logs
    assert world.running_nodes() == ["n1", "n2", "n3"]
    assert len(world.started) == 3 + hit


def test_flip_log_waits_until_there_is_a_log_to_damage(
    world: DummyWorld, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    logs = write_logs(world, tmp_path)
    file = world.folder / "n2" / "log" / "1.wal"
    file.write_bytes(logs["n2"][:900])

    async def write_on() -> None:
        await trio.sleep(0.05)
        file.write_bytes(logs["n2"])

    def node_data(node: str) -> Path:
        if node == "n2":
            trio.lowlevel.spawn_system_task(write_on)
        return world.folder / node

    monkeypatch.setattr(world, "node_data", node_data)
    (result,) = apply(world, tmp_path, msgspec.structs.replace(fault("flip-log"), choice=1))
    assert result.bit
    damaged = result.evidence["effect"]["damaged"]
    assert isinstance(damaged, dict)
    assert set(damaged) == {"n1", "n2", "n3"}


def test_flip_log_spares_a_minority_that_has_hardly_any_log(
    world: DummyWorld, tmp_path: Path
) -> None:
    logs = write_logs(world, tmp_path)
    (world.folder / "n2" / "log" / "1.wal").write_bytes(logs["n2"][:900])
    quick = msgspec.structs.replace(SETTINGS, leader_wait_s=0.1)
    flip = msgspec.structs.replace(fault("flip-log"), choice=1)
    (result,) = apply(world, tmp_path, flip, settings=quick)
    assert result.bit
    damaged = result.evidence["effect"]["damaged"]
    assert isinstance(damaged, dict)
    assert set(damaged) == {"n1", "n3"}


def test_a_log_without_damage_in_it_is_no_bite_and_all_nodes_are_started(
    world: DummyWorld, tmp_path: Path
) -> None:
    world.folder = tmp_path / "data"
    (result,) = apply(world, tmp_path, fault("flip-log"))
    assert not result.bit
    assert "has 4096 bytes" in result.reason
    assert world.running_nodes() == ["n1", "n2", "n3"]


def test_damage_lies_in_the_middle_or_shortly_before_the_end(tmp_path: Path) -> None:
    size = 100_000
    (tmp_path / "1.wal").write_bytes(b"x" * size + bytes(500))
    late = 0
    for seed in range(60):
        damage = Damage.do(tmp_path, random.Random(seed))
        late += damage.offset > size - 12_289
        in_the_middle = size // 4 <= damage.offset < size * 3 // 4
        assert in_the_middle or size - 12_288 <= damage.offset <= size - 4096
        assert damage.undo()
    assert 25 < late < 58


def test_damage_that_a_node_has_cut_off_is_not_undone(tmp_path: Path) -> None:
    file = tmp_path / "1.wal"
    file.write_bytes(b"x" * 5000)
    damage = Damage.do(tmp_path, random.Random(1))
    assert damage.undo()
    assert file.read_bytes() == b"x" * 5000
    damage = Damage.do(tmp_path, random.Random(1))
    with file.open("r+b") as shorter:
        shorter.truncate(damage.offset + 3)
    assert not damage.undo()
    assert file.stat().st_size == damage.offset + 3


def test_damage_in_a_log_that_a_node_has_deleted_is_not_undone(tmp_path: Path) -> None:
    file = tmp_path / "1.wal"
    file.write_bytes(b"x" * 5000)
    damage = Damage.do(tmp_path, random.Random(1))
    file.unlink()
    assert not damage.undo()
    assert not file.exists()


def moved(kind: str, target: str, duration_s: float = 0.2, **options: float) -> Fault:
    return msgspec.structs.replace(
        fault(kind, duration_s=duration_s), target=target, options=dict(options)
    )


def test_a_bump_may_say_how_far_and_whose_clock(world: DummyWorld, tmp_path: Path) -> None:
    (result,) = apply(world, tmp_path, moved("bump-clock", "n2+n3", step_ms=-60_000))
    assert result.bit
    assert result.evidence["effect"]["seen_s"] == {"n2": -59.998766, "n3": -59.998766}
    assert world.errors_us == {"n2": 0, "n3": 0}


def test_a_drifting_clock_gains_what_its_rate_says(world: DummyWorld, tmp_path: Path) -> None:
    seen: list[int] = []
    setting = world.set_time_of_day_error

    def set_error(node: str, error_us: int) -> None:
        seen.append(error_us)
        setting(node, error_us)

    world.set_time_of_day_error = set_error  # type: ignore[method-assign]
    (result,) = apply(world, tmp_path, moved("drift-clock", "leader", 0.3, rate=-10))
    assert result.bit
    assert result.evidence["healed"]["moves"] == len(seen) - 2
    assert seen[0] == -5_000_000
    assert seen[1:-1] == sorted(seen[1:-1], reverse=True)
    # Its last step may lie one step before the end, and comes later on a busy machine.
    assert -7_000_000 > seen[-2] > -60_000_000
    assert seen[-1] == 0


def test_a_strobing_clock_is_seen_wrong_and_right(world: DummyWorld, tmp_path: Path) -> None:
    (result,) = apply(world, tmp_path, moved("strobe-clock", "one", step_ms=9000, period_ms=5))
    assert result.bit
    assert result.evidence["effect"]["seen_s"] == 9.001234
    assert result.evidence["effect"]["back"] == {"step_s": 0.0, "seen_s": 0.001234}
    moves = result.evidence["healed"]["moves"]
    assert isinstance(moves, int)
    assert moves > 3
    assert set(world.errors_us.values()) == {0}


@pytest.mark.parametrize("kind", ["drift-clock", "strobe-clock"])
def test_a_clock_that_does_not_show_it_is_no_bite(
    world: DummyWorld, tmp_path: Path, kind: str
) -> None:
    world.hides_time_of_day = True
    quick = msgspec.structs.replace(SETTINGS, exit_wait_s=0.2)
    (result,) = apply(world, tmp_path, moved(kind, "all"), settings=quick)
    assert not result.bit
    assert set(world.errors_us.values()) == {0}


def test_a_node_that_keeps_the_common_monotonic_clock_is_no_bite(
    world: DummyWorld, tmp_path: Path
) -> None:
    quick = msgspec.structs.replace(SETTINGS, exit_wait_s=0.3)
    (result,) = apply(world, tmp_path, moved("shift-monotonic", "n2", shift_s=60), settings=quick)
    assert not result.bit
    assert "was not seen with a monotonic clock of its own" in result.reason
    assert world.started == ["n2", "n2"]
    assert world.desk.within == {"n2": ()}


def test_a_node_is_told_its_own_monotonic_clock_by_the_command_that_starts_it() -> None:
    assert within(3600) == ("unshare", "--time", "--monotonic=3600", "--")
