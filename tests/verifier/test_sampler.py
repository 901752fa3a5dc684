"""How long processes wait for a core: sampled under an injected clock, and on the real kernel."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from atleastonce.histories.lines import LineWriter
from atleastonce.histories.scheduling import SchedulingSample, Wait, read_scheduling
from atleastonce.verifier.cpu_times import CpuTimes, MachineTimes, ThreadTimes
from atleastonce.verifier.sampler import TICK_NS, Sampler, name_processes, sampling
from atleastonce.verifier.watch import SupervisorWatch

MS = 1_000_000
_DEADLINE_S = 60.0


class FakeMachine:
    """A clock and counters that only move when a test says so."""

    def __init__(self) -> None:
        self.now_ns = 5_000 * MS
        self.cores = 2
        self.busy_ns = self.stolen_ns = 0
        self.times: dict[int, dict[int, ThreadTimes]] = {}
        self.names: dict[int, str] = {}
        self.samples: list[SchedulingSample] = []

    def threads(self, pid: int) -> Mapping[int, ThreadTimes]:
        return dict(self.times.get(pid, {}))

    def machine(self) -> MachineTimes:
        return MachineTimes(self.busy_ns, self.stolen_ns)

    def spend(self, pid: int, ran_ms: int, waited_ms: int, thread: int = 0) -> None:
        """Let one thread run and wait a little more."""
        before = self.times.setdefault(pid, {}).get(thread, ThreadTimes(0, 0))
        self.times[pid][thread] = ThreadTimes(
            before.ran_ns + ran_ms * MS, before.waited_ns + waited_ms * MS
        )

    def sampler(self) -> Sampler:
        return Sampler(lambda: self.now_ns, self, lambda: self.names, self.samples.append)

    def sleep(self, sampler: Sampler, ms: int = TICK_NS // MS) -> None:
        self.now_ns += ms * MS
        sampler.wake()


def test_sample_tells_shares_of_the_time_since_the_last() -> None:
    machine = FakeMachine()
    machine.names = {7: "n1", 8: "supervisor"}
    machine.spend(7, 9_000, 9_000)
    machine.spend(8, 0, 0)
    sampler = machine.sampler()
    for _ in range(10):
        machine.spend(7, 5, 40)
        machine.busy_ns += 90 * MS
        machine.stolen_ns += 5 * MS
        machine.sleep(sampler)
    assert machine.samples == [
        SchedulingSample(
            from_ns=5_000 * MS,
            t_ns=5_500 * MS,
            late_ns=0,
            own=0.05,
            others=0.85,
            stolen=0.05,
            waits={"n1": Wait(waited=0.8, ran=0.1)},
        )
    ]


def test_samples_follow_each_other_without_a_gap() -> None:
    machine = FakeMachine()
    sampler = machine.sampler()
    for _ in range(25):
        machine.sleep(sampler)
    assert [(s.from_ns // MS, s.t_ns // MS) for s in machine.samples] == [
        (5_000, 5_500),
        (5_500, 6_000),
    ]


def test_late_wake_up_is_told_and_makes_one_long_sample() -> None:
    machine = FakeMachine()
    machine.names = {7: "n1"}
    machine.spend(7, 0, 0)
    sampler = machine.sampler()
    machine.spend(7, 100, 1_500)
    machine.sleep(sampler, 2_000)
    (sample,) = machine.samples
    assert sample.t_ns - sample.from_ns == 2_000 * MS
    assert sample.late_ns == 2_000 * MS - TICK_NS
    assert sample.waits == {"n1": Wait(waited=0.75, ran=0.05)}


def test_lateness_belongs_to_one_sample() -> None:
    machine = FakeMachine()
    sampler = machine.sampler()
    machine.sleep(sampler, 700)
    for _ in range(10):
        machine.sleep(sampler)
    assert [sample.late_ns for sample in machine.samples] == [650 * MS, 0]


def test_thread_that_waited_longest_speaks_for_its_process() -> None:
    machine = FakeMachine()
    machine.names = {7: "n1"}
    machine.spend(7, 0, 0, thread=7)
    machine.spend(7, 0, 0, thread=9)
    sampler = machine.sampler()
    machine.spend(7, 200, 50, thread=7)
    machine.spend(7, 10, 300, thread=9)
    machine.sleep(sampler, 500)
    assert machine.samples[0].waits == {"n1": Wait(waited=0.6, ran=0.02)}
    assert machine.samples[0].own == 0.21


def test_process_counts_from_the_look_after_it_appeared() -> None:
    machine = FakeMachine()
    sampler = machine.sampler()
    machine.names = {7: "worker 7"}
    machine.spend(7, 300, 9_000)
    machine.sleep(sampler, 500)
    machine.spend(7, 10, 250)
    machine.sleep(sampler, 500)
    assert [sample.waits for sample in machine.samples] == [
        {},
        {"worker 7": Wait(waited=0.5, ran=0.02)},
    ]


def test_process_that_is_gone_says_nothing() -> None:
    machine = FakeMachine()
    machine.names = {7: "n1"}
    machine.spend(7, 10, 10)
    sampler = machine.sampler()
    machine.times.clear()
    machine.sleep(sampler, 500)
    assert machine.samples[0].waits == {}


def test_full_disk_ends_the_sampling_and_is_told() -> None:
    def refuse(_: SchedulingSample) -> None:
        raise OSError("no space left")

    with sampling(CpuTimes(), lambda: {os.getpid(): "verifier"}, refuse) as told:
        wait_until(lambda: bool(told.error))
    assert told.error.endswith("not sampled to the end: no space left")


def test_folder_gets_samples_while_the_block_runs(tmp_path: Path) -> None:
    path = tmp_path / "scheduling.jsonl"
    with (
        LineWriter(path) as lines,
        sampling(CpuTimes(), lambda: {os.getpid(): "verifier"}, lines.write) as told,
    ):
        wait_until(lambda: len(read_scheduling(path)) >= 2)
    samples = read_scheduling(path)
    assert told.error == ""
    assert all(sample.t_ns > sample.from_ns for sample in samples)
    assert all(0 <= share <= 1 for s in samples for share in (s.own, s.others, s.stolen))


def test_no_supervisor_leaves_the_verifier_and_what_runs(tmp_path: Path) -> None:
    watch = SupervisorWatch(tmp_path / "status.json")
    names = name_processes(lambda: {4711: "n1"}, watch)
    assert names == {os.getpid(): "verifier", 4711: "n1"}


def test_workers_are_named_while_their_master_lives(tmp_path: Path) -> None:
    status = tmp_path / "status.json"
    status.write_text(
        '{"t_ns":1,"master":10,"fork_server":11,"state":"running","circuit":"closed","workers":'
        '[{"pid":12,"state":"idle","job":null,"since_ns":1,"leases":0}],"v":1}'
    )
    watch = SupervisorWatch(status)
    with_master = name_processes(lambda: {10: "supervisor"}, watch)
    assert with_master[11] == "fork-server"
    assert with_master[12] == "worker 12"
    assert set(name_processes(dict, watch)) == {os.getpid()}


def wait_until(condition: object) -> None:
    assert callable(condition)
    deadline = time.monotonic() + _DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline, "nothing came of it"
        threading.Event().wait(0.01)


@contextmanager
def spinning(core: int) -> Iterator[int]:
    """A process that wants all of one core."""
    child = subprocess.Popen(
        (sys.executable, "-c", f"import os; os.sched_setaffinity(0, {{{core}}})\nwhile True: pass")
    )
    try:
        yield child.pid
    finally:
        child.kill()
        child.wait()


def test_process_that_is_stopped_does_not_wait_and_one_that_shares_its_core_does() -> None:
    core = min(os.sched_getaffinity(0))
    times = CpuTimes()
    with spinning(core) as one, spinning(core) as other:
        wait_until(lambda: waited_ms(times, one) > 20 and waited_ms(times, other) > 20)
        os.kill(one, signal.SIGSTOP)
        wait_until(lambda: "stopped" in Path(f"/proc/{one}/status").read_text())
        stopped, running = times.threads(one), times.threads(other)
        since_s = time.monotonic()
        wait_until(lambda: time.monotonic() - since_s > 0.5)
        assert times.threads(one) == stopped
        assert times.threads(other) != running


def waited_ms(times: CpuTimes, pid: int) -> int:
    return max((one.waited_ns for one in times.threads(pid).values()), default=0) // MS


def test_gone_process_has_no_threads() -> None:
    child = subprocess.Popen((sys.executable, "-c", ""))
    child.wait()
    assert CpuTimes().threads(child.pid) == {}


def test_machine_times_are_those_of_the_usable_cores(tmp_path: Path) -> None:
    usable = sorted(os.sched_getaffinity(0))
    lines = ["cpu  1 1 1 1 1 1 1 1 0 0"]
    lines += [f"cpu{core} 10 0 5 100 7 0 1 4 0 0" for core in usable]
    lines += [f"cpu{max(usable) + 1} 999 0 0 0 0 0 0 0 0 0", "intr 5"]
    (tmp_path / "stat").write_text("\n".join(lines) + "\n")
    tick_ns = 1_000_000_000 // os.sysconf("SC_CLK_TCK")
    found = CpuTimes(tmp_path).machine()
    assert found == MachineTimes(16 * len(usable) * tick_ns, 4 * len(usable) * tick_ns)


def test_machine_without_its_counters_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="stat"):
        CpuTimes(tmp_path).machine()
