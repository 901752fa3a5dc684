"""Nodes that need more memory than a control group lets them have.

Where these tests do not run as root they see that the fault is refused.
"""

from __future__ import annotations

import os
import re
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
import trio

from atleastonce.nemesis.fault import Fault
from atleastonce.nemesis.levels import CONTROL_GROUPS
from atleastonce.nemesis.process import is_alive
from atleastonce.verifier.levels import probe_machine

from .applying import apply, fault
from .dummy_world import GRACEFUL, DummyWorld

(FINDING,) = probe_machine((CONTROL_GROUPS,))

# It takes 16 MiB whenever it is asked something.
_HUNGRY = f"""{GRACEFUL}
kept = []
signal.signal(10, lambda *_: kept.append(b'x' * (16 << 20)))"""


@pytest.fixture
def hungry() -> Iterator[DummyWorld]:
    world = DummyWorld(_HUNGRY)

    def answer(node: str) -> int | None:
        target = world.node_process(node)
        os.kill(target.pid, signal.SIGUSR1)
        deadline_s = time.monotonic() + 0.2
        while is_alive(target) and time.monotonic() < deadline_s:
            os.sched_yield()
        return 400

    world.desk.answer = answer
    yield world
    world.end()


def oom(target: str) -> Fault:
    return msgspec.structs.replace(fault("oom-kill"), target=target, options={"more_mib": 1})


def left_over(folder: Path) -> list[str]:
    """Groups that the ledger of a run names and that are still there."""
    told = (folder / "ledger.jsonl").read_text(encoding="utf-8")
    named: list[str] = re.findall(r'"(/[^"]*/atleastonce-[^"]*)"', told)
    assert named or not FINDING.passed
    return [each for each in named if Path(each).exists()]


def test_the_kernel_kills_whoever_needs_more_memory_than_its_group_has(
    hungry: DummyWorld, tmp_path: Path
) -> None:
    (result,) = apply(hungry, tmp_path, oom("n1+n3"))
    if not FINDING.passed:
        assert not result.bit
        return
    assert result.bit, result.reason
    bitten = result.evidence["effect"]
    assert bitten["statuses"] == {"n1": 9, "n3": 9}
    assert bitten["oom_kills"] == {"n1": 1, "n3": 1}
    assert sorted(hungry.started) == ["n1", "n3"]
    assert left_over(tmp_path) == []


def test_a_node_that_needs_no_more_memory_is_no_bite_and_leaves_its_group(
    world: DummyWorld, tmp_path: Path
) -> None:
    before = Path(f"/proc/{world.node_process('n2').pid}/cgroup").read_text(encoding="ascii")
    (result,) = apply(world, tmp_path, oom("n2"))
    assert not result.bit
    if FINDING.passed:
        assert result.reason == "n2 got along with 1 MiB more"
    target = world.node_process("n2")
    assert Path(f"/proc/{target.pid}/cgroup").read_text(encoding="ascii") == before
    assert is_alive(target)
    assert world.started == []
    assert left_over(tmp_path) == []


@pytest.mark.parametrize("kind", ["cpu-quota", "oom-kill"])
def test_a_node_that_has_ended_is_put_into_no_group(
    world: DummyWorld, tmp_path: Path, kind: str
) -> None:
    gone = world.node_process("n2")
    world.kill("n2")
    trio.run(world.wait_exit, gone)
    (result,) = apply(world, tmp_path, msgspec.structs.replace(fault(kind), target="n2"))
    assert not result.bit
    if FINDING.passed:
        assert result.reason == f"n2 (pid {gone.pid}) had already ended"
    assert left_over(tmp_path) == []
