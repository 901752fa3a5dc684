"""The time of day of a supervisor and its workers, moved by a preloaded clock."""

from __future__ import annotations

import os
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest
import trio

from atleastonce.histories.ops import Json
from atleastonce.nemesis.clock_records import ahead_ns
from atleastonce.nemesis.clockshim.proof import ONCE, command
from atleastonce.nemesis.clockshim.shim import ShimClock, preloading, write_shim
from atleastonce.nemesis.fault import Fault
from atleastonce.nemesis.healing import heal
from atleastonce.nemesis.ledger import Ledger

from .applying import SETTINGS, apply, fault
from .dummy_world import DummyWorld

KINDS = ["bump-supervisor-clock", "drift-supervisor-clock", "strobe-supervisor-clock"]


class DummyClock:
    """A supervisor's clock, asked as a run asks it."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "clock.so"
        self.attempts = folder / "attempts"
        self.attempts.mkdir()
        self.forgets_the_shim = False
        write_shim(self.path)

    async def ask_error_us(self) -> int | None:
        await trio.sleep(0)
        variables = {} if self.forgets_the_shim else preloading(self.path, os.environ)
        done = subprocess.run(
            command(ONCE), env={**os.environ, **variables}, capture_output=True, check=True
        )
        return (int(done.stdout) - ahead_ns()) // 1000


@pytest.fixture
def clock(world: DummyWorld, tmp_path: Path) -> DummyClock:
    """The world's supervisor runs with a shim."""
    clock = DummyClock(tmp_path)
    world.own_clock = clock
    world.start_supervisor_now()
    return clock


def moved(kind: str, **options: Json) -> Fault:
    lasting = {"duration_s": 0.3, "options": dict(options)}
    return msgspec.structs.replace(fault(kind), **lasting)


@contextmanager
def writing_workers(
    world: DummyWorld, clock: DummyClock, error_ns: Callable[[int], int]
) -> Iterator[None]:
    """Workers that write records; `error_ns` says how wrong one is, of how it ought to be."""
    over = threading.Event()
    pid = world.workers()[0].pid

    def write() -> None:
        with ShimClock(clock.path) as shim, (clock.attempts / "a.jsonl").open("ab", 0) as log:
            while not over.wait(0.005):
                record = {
                    "pid": pid,
                    "t_ns": time.monotonic_ns(),
                    "wall_ns": time.time_ns() + error_ns(shim.offset_ns),
                }
                log.write(msgspec.json.encode(record).ljust(511) + b"\n")

    writer = threading.Thread(target=write)
    writer.start()
    try:
        yield
    finally:
        over.set()
        writer.join()


def offset_ns(clock: DummyClock) -> int:
    with ShimClock(clock.path) as shim:
        return shim.offset_ns


@pytest.mark.parametrize("step_ms", [-60_000, 3_600_000, 20])
def test_bump_is_seen_in_all_processes_and_records_and_is_taken_back(
    world: DummyWorld, clock: DummyClock, tmp_path: Path, step_ms: int
) -> None:
    with writing_workers(world, clock, lambda offset: offset):
        (result,) = apply(world, tmp_path, moved("bump-supervisor-clock", step_ms=step_ms))
    assert result.bit, result.reason
    assert result.target == "supervisor"
    effect, healed = result.evidence["effect"], result.evidence["healed"]
    assert effect["step_s"] == step_ms / 1000
    assert isinstance(effect["seen_s"], float)
    assert abs(effect["seen_s"] - step_ms / 1000) < 0.2
    assert effect["processes"] == 3
    assert effect["records"]
    assert healed["moved"] == healed["records"]
    assert result.evidence["recovered"]["records"]
    assert offset_ns(clock) == 0


@pytest.mark.parametrize("kind", KINDS)
def test_clock_of_idle_workers_is_moved_and_put_right_without_records(
    world: DummyWorld, clock: DummyClock, tmp_path: Path, kind: str
) -> None:
    (result,) = apply(world, tmp_path, moved(kind))
    assert result.bit, result.reason
    assert result.evidence["healed"]["records"] == 0
    assert result.recovered_ns
    assert offset_ns(clock) == 0


def test_strobe_shows_both_times_in_the_records(
    world: DummyWorld, clock: DummyClock, tmp_path: Path
) -> None:
    with writing_workers(world, clock, lambda offset: offset):
        strobe = moved("strobe-supervisor-clock", step_ms=9000, period_ms=5)
        (result,) = apply(world, tmp_path, strobe)
    healed = result.evidence["healed"]
    assert isinstance(healed["moves"], int)
    assert healed["moves"] > 5
    assert isinstance(healed["moved"], int)
    assert isinstance(healed["records"], int)
    assert 0 < healed["moved"] < healed["records"]


def test_drift_gains_more_and_more(world: DummyWorld, clock: DummyClock, tmp_path: Path) -> None:
    with writing_workers(world, clock, lambda offset: offset):
        (result,) = apply(world, tmp_path, moved("drift-supervisor-clock", rate=-100))
    error_s = result.evidence["healed"]["error_s"]
    assert isinstance(error_s, list)
    least, most = error_s
    assert isinstance(least, float)
    assert isinstance(most, float)
    assert least < -65
    assert most > -52


def test_records_with_the_right_time_are_no_bite(
    world: DummyWorld, clock: DummyClock, tmp_path: Path
) -> None:
    with writing_workers(world, clock, lambda _: 0):
        (result,) = apply(world, tmp_path, moved("bump-supervisor-clock", step_ms=5000))
    assert not result.bit
    assert "and none with a clock moved by 5 s; the first is off by" in result.reason
    assert offset_ns(clock) == 0


def test_supervisor_without_the_shim_is_no_bite(world: DummyWorld, tmp_path: Path) -> None:
    world.start_supervisor_now()
    world.own_clock = clock = DummyClock(tmp_path)
    quick = msgspec.structs.replace(SETTINGS, exit_wait_s=0.2)
    (result,) = apply(world, tmp_path, moved("bump-supervisor-clock"), settings=quick)
    assert not result.bit
    assert result.reason.startswith("no clock shim in supervisor (pid ")
    assert offset_ns(clock) == 0


def test_new_program_that_sees_the_right_time_is_no_bite(
    world: DummyWorld, clock: DummyClock, tmp_path: Path
) -> None:
    clock.forgets_the_shim = True
    quick = msgspec.structs.replace(SETTINGS, exit_wait_s=0.2)
    bump = moved("bump-supervisor-clock", step_ms=-7000)
    (result,) = apply(world, tmp_path, bump, settings=quick)
    assert not result.bit
    assert "did not see its clock moved by -7 s" in result.reason
    assert offset_ns(clock) == 0


def test_workers_that_go_on_with_the_wrong_time_have_not_recovered(
    world: DummyWorld, clock: DummyClock, tmp_path: Path
) -> None:
    impatient = msgspec.structs.replace(SETTINGS, recover_wait_s=0.5)
    with writing_workers(world, clock, lambda _: 5_000_000_000):
        bump = moved("bump-supervisor-clock", step_ms=5000)
        (result,) = apply(world, tmp_path, bump, settings=impatient)
    assert result.bit
    assert "was not healthy" in result.reason


def test_two_faults_on_one_clock_take_turns_and_a_kill_goes_beside(
    world: DummyWorld, clock: DummyClock, tmp_path: Path
) -> None:
    bumps = [
        msgspec.structs.replace(fault(KINDS[0], number), duration_s=0.2, choice=number)
        for number in (1, 2)
    ]
    kill = fault("kill-supervisor", at_s=0.05)
    first, second, killed = apply(world, tmp_path, *bumps, kill)
    assert first.bit or "no clock shim in the supervisor" in first.reason
    assert second.bit or "no clock shim in the supervisor" in second.reason
    assert killed.bit
    earlier, later = sorted((first, second), key=lambda each: each.opened_ns or 0)
    assert earlier.healed_ns is not None
    assert later.opened_ns is not None
    assert earlier.healed_ns <= later.opened_ns
    assert offset_ns(clock) == 0


def test_a_dead_runs_clock_is_put_right_from_its_ledger(clock: DummyClock, tmp_path: Path) -> None:
    path = tmp_path / "ledger.jsonl"
    pid = os.fork()
    if pid == 0:
        ledger = Ledger(path)
        ledger.fault_opened("a", KINDS[0], [])
        ledger.fault_owes("a", {"time-of-day": {"path": str(clock.path)}})
        ShimClock(clock.path).move(-3_600_000_000_000)
        os._exit(0)
    os.waitpid(pid, 0)
    assert offset_ns(clock) == -3_600_000_000_000
    told = heal(path)
    assert f"put right the time of day that {clock.path} moved by -3600 s" in "\n".join(told)
    assert offset_ns(clock) == 0
