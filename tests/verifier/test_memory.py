"""How much memory processes hold: sampled under an injected clock, and read from the kernel."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from atleastonce.histories.lines import LineWriter
from atleastonce.histories.memory import Held, MemorySample, read_memory
from atleastonce.verifier.memory import MemorySampler, memory_sampling, read_held

S = 1_000_000_000
ROLLUP = """\
55d0-7ffe ---p 00000000 00:00 0                          [rollup]
Rss:               45000 kB
Pss:               30000 kB
Pss_Dirty:         20000 kB
Private_Clean:      1000 kB
Private_Dirty:     25000 kB
"""


class World:
    """A clock and processes that only change when a test says so."""

    def __init__(self) -> None:
        self.now_ns = 7 * S
        self.names = {1: "supervisor", 2: "worker 2"}
        self.held = {pid: Held(pid=pid, rss=10, pss=5, private=1) for pid in self.names}
        self.samples: list[MemorySample] = []

    def read(self, pid: int) -> Held | None:
        return self.held.get(pid)

    def sampler(self, pause_s: float = 60) -> MemorySampler:
        return MemorySampler(
            lambda: self.now_ns,
            lambda: self.now_ns + 1,
            self.read,
            lambda: self.names,
            self.samples.append,
            round(pause_s * S),
        )

    def sleep(self, sampler: MemorySampler, seconds: float) -> None:
        self.now_ns += round(seconds * S)
        sampler.wake()


def test_first_sample_is_taken_at_once_and_names_every_process() -> None:
    world = World()
    world.sampler()

    (sample,) = world.samples
    assert (sample.t_ns, sample.wall_ns) == (7 * S, 7 * S + 1)
    assert sample.held == {"supervisor": world.held[1], "worker 2": world.held[2]}


def test_one_sample_is_taken_for_each_pause_however_often_it_wakes() -> None:
    world = World()
    sampler = world.sampler(pause_s=60)
    for _ in range(1900):
        world.sleep(sampler, 0.1)

    assert [sample.t_ns // S for sample in world.samples] == [7, 67, 127, 187]


def test_sampler_that_slept_through_pauses_takes_one_sample_and_keeps_its_rhythm() -> None:
    world = World()
    sampler = world.sampler(pause_s=10)
    world.sleep(sampler, 35)
    world.sleep(sampler, 4)
    world.sleep(sampler, 1)

    assert [sample.t_ns // S for sample in world.samples] == [7, 42, 47]


def test_process_that_ended_meanwhile_is_left_out_and_a_new_one_is_in() -> None:
    world = World()
    sampler = world.sampler(pause_s=10)
    world.names = {1: "supervisor", 2: "worker 2", 3: "worker 3"}
    world.held = {1: world.held[1], 3: Held(pid=3, rss=20, pss=20, private=20)}
    world.sleep(sampler, 10)

    assert set(world.samples[-1].held) == {"supervisor", "worker 3"}


def test_kernels_figures_are_read_in_kib(tmp_path: Path) -> None:
    (tmp_path / "7").mkdir()
    (tmp_path / "7" / "smaps_rollup").write_text(ROLLUP)

    assert read_held(7, tmp_path) == Held(pid=7, rss=45_000, pss=30_000, private=26_000)


def test_process_that_is_gone_or_has_no_memory_left_holds_nothing(tmp_path: Path) -> None:
    (tmp_path / "8").mkdir()
    (tmp_path / "8" / "smaps_rollup").write_text("")

    assert read_held(7, tmp_path) is None
    assert read_held(8, tmp_path) is None


def test_what_this_process_allocates_is_seen() -> None:
    before = read_held(os.getpid())
    block = bytearray(os.urandom(1 << 20) * 32)
    after = read_held(os.getpid())

    assert before is not None
    assert after is not None
    assert after.rss - before.rss >= 30 * 1024, len(block)
    assert after.private <= after.pss <= after.rss


def test_thread_writes_samples_that_read_back(tmp_path: Path) -> None:
    path = tmp_path / "memory.jsonl"
    with LineWriter(path) as file, memory_sampling(lambda: {os.getpid(): "n1"}, file.write, 0.01):
        until_s = time.monotonic() + 30
        while len(read_memory(path)) < 3 and time.monotonic() < until_s:
            os.sched_yield()

    samples = read_memory(path)
    assert len(samples) >= 3
    assert samples[0].held["n1"].pid == os.getpid()


def test_error_ends_the_sampling_and_is_told() -> None:
    def full(_: MemorySample) -> None:
        raise OSError("No space left on device")

    with memory_sampling(dict, full, 0.01) as told:
        until_s = time.monotonic() + 30
        while not told.error and time.monotonic() < until_s:
            os.sched_yield()

    assert "not sampled to the end: No space left" in told.error


@pytest.mark.parametrize("text", ["", "{}\n"])
def test_folder_without_samples_has_none_or_says_what_is_wrong(tmp_path: Path, text: str) -> None:
    path = tmp_path / "memory.jsonl"
    if not text:
        assert read_memory(path) == []
        return
    path.write_text(text)
    with pytest.raises(Exception, match=r"memory\.jsonl"):
        read_memory(path)
