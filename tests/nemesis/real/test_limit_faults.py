"""Nodes with no more memory, no more files, or hardly a processor."""

from __future__ import annotations

import os
import resource
import signal
import time
from pathlib import Path

import msgspec
import pytest

from atleastonce.histories.ops import Json
from atleastonce.nemesis.fault import Fault
from atleastonce.nemesis.limits import give_back
from atleastonce.nemesis.process import is_alive, is_stopped

from .applying import apply, fault
from .dummy_world import GRACEFUL, DummyWorld


def limited(kind: str, **options: float) -> Fault:
    return msgspec.structs.replace(fault(kind), target="n2", options=dict(options))


@pytest.mark.parametrize(
    ("kind", "which"),
    [("limit-memory", resource.RLIMIT_AS), ("limit-files", resource.RLIMIT_NOFILE)],
)
def test_a_limit_is_lowered_seen_to_hurt_and_given_back(
    world: DummyWorld, tmp_path: Path, kind: str, which: int
) -> None:
    pid = world.node_process("n2").pid
    before, _ = resource.prlimit(pid, which)
    world.desk.answer = lambda _: 400 if resource.prlimit(pid, which)[0] == before else None
    (result,) = apply(world, tmp_path, limited(kind))
    assert result.bit
    assert resource.prlimit(pid, which)[0] == before
    assert result.evidence["healed"]["outcomes"] == {"n2": "survived"}
    assert world.started == []


# It closes a file while it is looked at, as a node closes the connection that it was probed over.
_CLOSING = f"""{GRACEFUL}
low = os.open(os.devnull, 0)
high = os.open(os.devnull, 0)
signal.signal(10, lambda *_: os.close(low))"""


def test_a_limit_of_files_follows_what_was_closed_in_the_moment_of_the_limit(
    tmp_path: Path,
) -> None:
    world = DummyWorld(_CLOSING)
    try:
        pid = world.node_process("n2").pid
        before = len(os.listdir(f"/proc/{pid}/fd"))
        probed = 0

        def answer(_: str) -> int | None:
            nonlocal probed
            probed += 1
            if probed == 2:
                os.kill(pid, signal.SIGUSR1)
                deadline_s = time.monotonic() + 60
                while len(os.listdir(f"/proc/{pid}/fd")) == before:
                    assert time.monotonic() < deadline_s, "the file stayed open"
            used = {int(name) for name in os.listdir(f"/proc/{pid}/fd")}
            free = min(set(range(16)) - used)
            return 400 if free < resource.prlimit(pid, resource.RLIMIT_NOFILE)[0] else None

        world.desk.answer = answer
        (result,) = apply(world, tmp_path, limited("limit-files"))
        assert result.bit, result.reason
    finally:
        world.end()


def test_a_limit_that_nobody_feels_is_no_bite(world: DummyWorld, tmp_path: Path) -> None:
    (result,) = apply(world, tmp_path, limited("limit-memory"))
    assert not result.bit
    assert result.reason == "n2 was not seen to suffer from its limit"
    assert set(world.desk.probes) == {16 << 20}


def test_a_node_that_answers_badly_without_a_limit_cannot_be_judged(
    world: DummyWorld, tmp_path: Path
) -> None:
    world.desk.answer = lambda _: None
    (result,) = apply(world, tmp_path, limited("limit-files"))
    assert result.reason == "n2 answered None before it had a limit"


def test_a_node_that_ends_of_its_limit_is_started_again(world: DummyWorld, tmp_path: Path) -> None:
    target = world.node_process("n2")

    def kill(_: str) -> int | None:
        if len(world.desk.probes) == 1:
            return 400
        if is_alive(target):
            world.kill("n2")
        return None

    world.desk.answer = kill
    (result,) = apply(world, tmp_path, limited("limit-files"))
    assert result.bit
    assert result.evidence["healed"]["outcomes"] == {"n2": "signal SIGKILL"}
    assert world.started == ["n2"]


def test_a_node_that_ends_only_once_it_has_its_limit_back_is_seen_to_end(
    world: DummyWorld, tmp_path: Path
) -> None:
    pid = world.node_process("n2").pid
    before, _ = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    asked_after = 0

    def lingering(_: str) -> int | None:
        nonlocal asked_after
        if len(world.desk.probes) == 1:
            return 400
        if resource.prlimit(pid, resource.RLIMIT_NOFILE)[0] == before:
            asked_after += 1
            if asked_after == 2:
                world.kill("n2")
        return None

    world.desk.answer = lingering
    (result,) = apply(world, tmp_path, limited("limit-files"))
    assert result.evidence["healed"]["outcomes"] == {"n2": "signal SIGKILL"}
    assert world.started == ["n2"]


def test_the_limit_of_a_process_that_outlived_its_run_is_given_back(world: DummyWorld) -> None:
    target = world.node_process("n1")
    soft, hard = resource.prlimit(target.pid, resource.RLIMIT_NOFILE)
    resource.prlimit(target.pid, resource.RLIMIT_NOFILE, (3, hard))
    thing: dict[str, Json] = {
        "pid": target.pid,
        "start_time": target.start_time,
        "resource": int(resource.RLIMIT_NOFILE),
        "soft": soft,
    }
    assert give_back({**thing, "start_time": "0"}) == []
    assert resource.prlimit(target.pid, resource.RLIMIT_NOFILE)[0] == 3
    assert len(give_back({**thing})) == 1
    assert resource.prlimit(target.pid, resource.RLIMIT_NOFILE)[0] == soft


def test_a_starved_node_is_stopped_again_and_again_and_runs_afterwards(
    world: DummyWorld, tmp_path: Path
) -> None:
    starving = msgspec.structs.replace(limited("starve-cpu", run_ms=2, stop_ms=8), duration_s=0.4)
    (result,) = apply(world, tmp_path, starving)
    assert result.bit
    stops = result.evidence["healed"]["stops"]
    assert isinstance(stops, int)
    assert stops > 3
    assert result.evidence["healed"]["runs"] is True
    assert not is_stopped(world.node_process("n2"))
