"""The preloaded clock, in real programs: what moves, what does not, and how fast."""

from __future__ import annotations

import ctypes
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from atleastonce.nemesis.clockshim.proof import prove
from atleastonce.nemesis.clockshim.shim import (
    OFFSET_NS_MAX,
    ShimClock,
    ShimError,
    image,
    is_loaded,
    preloading,
    put_right,
    write_shim,
)

from .clocked import Program, program

SECOND = 1_000_000_000
HOUR = 3600 * SECOND
DAY = 24 * HOUR
NEAR_S = 0.25


class Timespec(ctypes.Structure):
    _fields_ = (("seconds", ctypes.c_long), ("nanoseconds", ctypes.c_long))


@pytest.fixture(scope="module")
def shim(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("shim") / "clock.so"
    write_shim(path)
    return path


@pytest.fixture
def clock(shim: Path) -> Iterator[ShimClock]:
    with ShimClock(shim) as clock:
        yield clock
        clock.move(0)


@pytest.fixture(scope="module")
def clocked(shim: Path) -> Iterator[Program]:
    with program(shim) as started:
        yield started


def test_running_program_sees_each_jump_within_10_ms(clock: ShimClock, clocked: Program) -> None:
    assert abs(clocked.error_s()) < NEAR_S
    for step in (HOUR, -DAY, 0, 5_000_000, -300 * SECOND, 0):
        least_ms = 1e9
        for _ in range(20):
            clock.move(0 if step else HOUR)
            clocked.ask("time()")
            begun = time.monotonic()
            clock.move(step)
            told_s = float(clocked.ask("time()"))
            least_ms = min(least_ms, (time.monotonic() - begun) * 1000)
            assert abs(told_s - time.time() - step / 1e9) < NEAR_S
        # A busy machine may hold one answer back; the store itself is there at once.
        assert least_ms < 10


@pytest.mark.parametrize(
    "expression",
    [
        "time()",
        "time_ns() / 1e9",
        "clock_gettime(CLOCK_REALTIME)",
        "clock_gettime(5)",  # CLOCK_REALTIME_COARSE
        "datetime.datetime.now().timestamp()",
        "mktime(localtime()) + 0.5",
        "ctypes.CDLL(None).time(0) + 0.5",
        "(lambda t: (ctypes.CDLL(None).gettimeofday(t, 0), t[0] + t[1] / 1e6)[1])"
        "((ctypes.c_long * 2)())",
    ],
)
def test_every_way_to_ask_for_the_time_of_day_is_moved(
    clock: ShimClock, clocked: Program, expression: str
) -> None:
    for step in (0, HOUR, -DAY):
        clock.move(step)
        assert abs(clocked.error_s(expression) - step / 1e9) < 0.6 + NEAR_S


@pytest.mark.parametrize("number", [1, 2, 3, 4, 6, 7])
def test_other_clocks_stay_as_they_are(clock: ShimClock, clocked: Program, number: int) -> None:
    before = float(clocked.ask(f"clock_gettime({number})"))
    clock.move(-DAY)
    after = float(clocked.ask(f"clock_gettime({number})"))
    assert before <= after < before + 5


def test_monotonic_clock_of_a_program_is_everybodys(clock: ShimClock, clocked: Program) -> None:
    clock.move(DAY)
    before = time.monotonic_ns()
    told = int(clocked.ask("monotonic_ns()"))
    assert before <= told <= time.monotonic_ns()


@pytest.mark.parametrize("step", [HOUR, -HOUR])
@pytest.mark.parametrize(
    "wait",
    [
        "sleep(0.05)",
        "threading.Event().wait(0.05)",
        "threading.Lock().acquire() and threading.Condition().acquire() and "
        "__import__('queue').Queue().empty()",
        "(lambda lock: lock.acquire() and lock.acquire(timeout=0.05))(threading.Lock())",
        "__import__('select').select([], [], [], 0.05)",
    ],
)
def test_waits_are_as_long_as_ever(
    clock: ShimClock, clocked: Program, step: int, wait: str
) -> None:
    clock.move(step)
    begun = time.monotonic()
    clocked.ask(wait)
    assert time.monotonic() - begun < 5
    took = float(clocked.ask(f"(lambda t: ({wait}, monotonic() - t)[1])(monotonic())"))
    assert took < 5
    if "0.05" in wait:
        assert took >= 0.05


def test_a_clock_that_is_moved_in_a_wait_does_not_end_or_prolong_it(
    clock: ShimClock, clocked: Program
) -> None:
    clocked.ask(
        "(globals().update(waited=threading.Thread(target=lambda: globals().update("
        "took=(lambda t: (threading.Event().wait(0.3), monotonic() - t)[1])(monotonic())))),"
        "waited.start())"
    )
    for step in (HOUR, -HOUR, DAY, 0):
        clock.move(step)
        clocked.ask("time()")
    clocked.ask("waited.join()")
    assert 0.3 <= float(clocked.ask("took")) < 5


def moved(library: ctypes.CDLL, number: int = 0) -> int:
    """What the library's own function says, in nanoseconds; its nanoseconds are always normal."""
    told = Timespec()
    assert library.clock_gettime(number, ctypes.byref(told)) == 0
    assert 0 <= told.nanoseconds < SECOND
    return int(told.seconds * SECOND + told.nanoseconds)


@settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    offset=st.one_of(
        st.integers(-2_000_000_000, 2_000_000_000),
        st.integers(-1_500_000_000 * SECOND, 4_000_000_000 * SECOND),
        st.integers(-5, 5).map(lambda n: n * SECOND),
        st.integers(-5, 5).map(lambda n: n * SECOND - 1),
    )
)
def test_offset_is_added_exactly_whatever_second_it_crosses(
    shim: Path, clock: ShimClock, offset: int
) -> None:
    library = ctypes.CDLL(str(shim))
    clock.move(offset)
    before = time.time_ns()
    told = moved(library)
    assert before + offset <= told <= time.time_ns() + offset


def test_gettimeofday_and_time_agree_with_clock_gettime(shim: Path, clock: ShimClock) -> None:
    library = ctypes.CDLL(str(shim))
    library.time.restype = ctypes.c_long
    told, zone = (ctypes.c_long * 2)(), (ctypes.c_int * 2)(7, 7)
    for offset in (0, -1, 1, HOUR + 999_999_999, -DAY - 1):
        clock.move(offset)
        before = moved(library)
        assert library.gettimeofday(told, zone) == 0
        after = moved(library)
        assert before // 1000 <= told[0] * 1_000_000 + told[1] <= after // 1000
        assert 0 <= told[1] < 1_000_000
        assert list(zone) == [0, 0]
        zone[0] = 7
        into = ctypes.c_long()
        coarse = moved(library, 5) // SECOND
        said = library.time(ctypes.byref(into))
        assert coarse <= said == into.value <= moved(library, 5) // SECOND
        assert coarse <= library.time(None) <= moved(library, 5) // SECOND
        assert library.gettimeofday(None, None) == 0


def test_failures_are_the_c_librarys_minus_one_and_errno(shim: Path) -> None:
    library = ctypes.CDLL(str(shim), use_errno=True)
    ctypes.set_errno(0)
    assert library.clock_gettime(12345, ctypes.byref(Timespec())) == -1
    assert os.strerror(ctypes.get_errno()) == "Invalid argument"
    assert library.clock_gettime(0, ctypes.c_void_p(8)) == -1
    assert os.strerror(ctypes.get_errno()) == "Bad address"


def test_forked_and_executed_children_have_the_clock_too(shim: Path, clock: ShimClock) -> None:
    clock.move(-DAY)
    code = (
        "import os, subprocess, sys, time\n"
        "print(time.time(), flush=True)\n"
        "if os.fork() == 0: print(time.time(), flush=True); os._exit(0)\n"
        "os.wait()\n"
        "subprocess.run([sys.executable, '-c', 'import time; print(time.time())'])\n"
        "subprocess.run(['date', '+%s.0'])\n"
    )
    environment = {**os.environ, **preloading(shim, os.environ)}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, check=True
    )
    told = [float(word) for word in done.stdout.split()]
    assert len(told) == 4
    assert all(abs(each - time.time() + 86_400) < 10 for each in told)
    assert done.stderr == b""


def test_number_is_never_seen_half_written(clock: ShimClock, clocked: Program) -> None:
    """All bits of it change with each store; what is between the two would be years away."""
    steps = (-1, SECOND)
    clocked.ask(
        "globals().update(seen=[], reader=threading.Thread(target=lambda: "
        "[seen.append(time()) for _ in range(200_000)])) or reader.start()"
    )
    for number in range(100_000):
        clock.move(steps[number % 2])
    clocked.ask("reader.join()")
    now = time.time()
    assert abs(float(clocked.ask("min(seen)")) - now) < 60
    assert abs(float(clocked.ask("max(seen)")) - now) < 60


def test_what_was_preloaded_before_stays_behind_the_shim(shim: Path) -> None:
    assert preloading(shim, {}) == {"LD_PRELOAD": str(shim)}
    assert preloading(shim, {"LD_PRELOAD": "/a.so"}) == {"LD_PRELOAD": f"{shim}:/a.so"}


def test_process_has_a_shim_only_if_it_was_started_with_this_very_file(
    shim: Path, clocked: Program, tmp_path: Path
) -> None:
    clocked.ask("1")
    other = tmp_path / "clock.so"
    write_shim(other)
    assert is_loaded(clocked.pid, shim)
    assert not is_loaded(clocked.pid, other)
    assert not is_loaded(os.getpid(), other)


def test_proof_puts_the_clock_right_and_says_what_it_saw(shim: Path, clock: ShimClock) -> None:
    assert prove(shim) == "a program saw its clock off by +3600 s, -86400 s, +0 s"
    assert clock.offset_ns == 0


def test_library_that_the_dynamic_linker_leaves_out_is_no_proof(tmp_path: Path) -> None:
    path = tmp_path / "clock.so"
    path.write_bytes(b"\x7fOFF" + image()[4:])
    with pytest.raises(ShimError, match=r"it was not loaded: .*clock\.so.* ignored"):
        prove(path)


def test_file_of_a_shim_is_its_owners_and_is_not_written_twice(tmp_path: Path) -> None:
    path = tmp_path / "clock.so"
    write_shim(path)
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.read_bytes() == image()
    with pytest.raises(FileExistsError):
        write_shim(path)


@pytest.mark.parametrize("sign", [" ", ":", "$"])
def test_path_that_cannot_be_preloaded_is_refused(tmp_path: Path, sign: str) -> None:
    path = tmp_path / f"a{sign}b.so"
    with pytest.raises(ShimError, match=re.escape(f"cannot be preloaded: it holds {sign!r}")):
        write_shim(path)
    assert not path.exists()


def test_what_is_no_shim_is_not_written(tmp_path: Path) -> None:
    for content in (b"text", bytes(len(image()))):
        path = tmp_path / "file"
        path.write_bytes(content)
        with pytest.raises(ShimError, match="is no clock shim"):
            ShimClock(path)
        assert put_right({"path": str(path)}) == []
        assert path.read_bytes() == content


def test_moved_clock_is_put_right_once_and_a_lost_one_is_no_matter(
    shim: Path, clock: ShimClock, tmp_path: Path
) -> None:
    clock.move(-90 * SECOND)
    told = f"put right the time of day that {shim} moved by -90 s"
    assert put_right({"path": str(shim)}) == [told]
    assert clock.offset_ns == 0
    assert put_right({"path": str(shim)}) == []
    assert put_right({"path": str(tmp_path / "gone.so")}) == []


@pytest.mark.parametrize("offset", [OFFSET_NS_MAX + 1, -OFFSET_NS_MAX - 1])
def test_move_of_centuries_is_refused(clock: ShimClock, offset: int) -> None:
    with pytest.raises(ValueError, match="is not allowed"):
        clock.move(offset)
    assert clock.offset_ns == 0
