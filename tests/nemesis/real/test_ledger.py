"""What a killed verifier leaves behind is undone from its ledger, and nothing else is touched."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
import trio

from atleastonce.nemesis.healing import heal, open_ledgers
from atleastonce.nemesis.ledger import Ledger, LedgerInUseError, read_ledger
from atleastonce.nemesis.process import (
    ProcessGoneError,
    is_alive,
    is_stopped,
    send_to,
    wait_gone,
    wait_stopped,
)
from atleastonce.nemesis.strays import find_strays, mark_of
from atleastonce.nemesis.world import Target

# A run that starts two sleepers, stops the second, says so, and waits to be killed.
_VERIFIER = """
import os, signal, subprocess, sys
from pathlib import Path
from atleastonce.nemesis.ledger import Ledger
from atleastonce.nemesis.world import Target
ledger = Ledger(Path(sys.argv[1]))
targets = []
for name in ("n1", "n2"):
    child = subprocess.Popen(
        [sys.executable, "-S", "-c", "import signal; signal.pause()"], start_new_session=True,
        stdout=subprocess.DEVNULL,
    )
    targets.append(Target.of(child.pid, name))
    ledger.process_started(targets[-1])
ledger.fault_opened("pause-leader-1", "pause-leader", targets[1:])
os.kill(targets[1].pid, signal.SIGSTOP)
os.waitid(os.P_PID, targets[1].pid, os.WSTOPPED)
print(*(f"{t.pid} {t.start_time} {t.name}" for t in targets), sep=",", flush=True)
signal.pause()
"""


@pytest.fixture
def sleeper() -> Iterator[Target]:
    child = subprocess.Popen([sys.executable, "-S", "-c", "import signal; signal.pause()"])
    yield Target.of(child.pid, "n1")
    child.kill()
    child.wait()


@pytest.fixture
def ledger_path(tmp_path: Path) -> Path:
    folder = tmp_path / "jobs-kill-leader" / "20260101T000000Z"
    folder.mkdir(parents=True)
    return folder / "ledger.jsonl"


@pytest.fixture
def left_over(ledger_path: Path) -> Iterator[list[Target]]:
    """Two processes, the second one stopped, of a verifier that was killed in the middle."""
    verifier = subprocess.Popen(
        [sys.executable, "-c", _VERIFIER, str(ledger_path)], stdout=subprocess.PIPE, text=True
    )
    assert verifier.stdout is not None
    said = [part.split() for part in verifier.stdout.readline().split(",")]
    targets = [Target(int(pid), start, name) for pid, start, name in said]
    with pytest.raises(LedgerInUseError, match=f"alive \\(pid {verifier.pid}\\)"):
        heal(ledger_path)
    assert open_ledgers(ledger_path.parent.parent.parent) == []
    verifier.kill()
    verifier.wait()
    verifier.stdout.close()
    yield targets
    for target in targets:
        with suppress(ProcessGoneError):
            send_to(target, signal.SIGKILL)


def assert_healed(ledger_path: Path, left_over: list[Target]) -> None:
    running, stopped = left_over
    assert is_alive(running)
    assert is_stopped(stopped)
    store = ledger_path.parent.parent.parent
    assert open_ledgers(store) == [ledger_path]
    assert heal(ledger_path) == [
        f"continued n2 (pid {stopped.pid}), which fault pause-leader-1 had stopped",
        f"killed n1 (pid {running.pid}), left over from a dead run",
        f"killed n2 (pid {stopped.pid}), left over from a dead run",
        "closed fault pause-leader-1 on n2",
    ]
    assert not is_alive(running)
    assert not is_alive(stopped)
    assert open_ledgers(store) == []
    assert heal(ledger_path) == []


def test_a_killed_run_is_undone_once(ledger_path: Path, left_over: list[Target]) -> None:
    assert_healed(ledger_path, left_over)


def test_a_torn_last_line_is_tolerated(ledger_path: Path, left_over: list[Target]) -> None:
    with ledger_path.open("ab") as file:
        file.write(b'{"event":"process","pid":1')
    assert_healed(ledger_path, left_over)


def test_a_process_that_reuses_the_number_is_not_touched(
    ledger_path: Path, sleeper: Target
) -> None:
    write_dead_run(ledger_path, Target(sleeper.pid, str(int(sleeper.start_time) - 1), "n1"))
    assert heal(ledger_path) == []
    assert is_alive(sleeper)
    assert read_ledger(ledger_path).closed


def test_a_run_before_the_last_boot_is_only_closed(ledger_path: Path, sleeper: Target) -> None:
    write_dead_run(ledger_path, sleeper, boot="another-boot")
    assert open_ledgers(ledger_path.parent.parent.parent) == [ledger_path]
    assert heal(ledger_path) == []
    assert is_alive(sleeper)
    assert read_ledger(ledger_path).closed


def test_an_empty_ledger_is_closed(ledger_path: Path) -> None:
    ledger_path.write_bytes(b'{"ev')
    assert heal(ledger_path) == []
    assert read_ledger(ledger_path).closed


def write_dead_run(ledger_path: Path, target: Target, boot: str = "") -> None:
    """The ledger of a run whose owner is no more."""
    Ledger(ledger_path).process_started(target)
    make_owner_dead(ledger_path, boot)


def make_owner_dead(ledger_path: Path, boot: str = "") -> None:
    lines = [json.loads(line) for line in ledger_path.read_bytes().splitlines()]
    lines[0] |= {"start_time": "1"} | ({"boot": boot} if boot else {})
    ledger_path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="ascii")


def test_a_closed_ledger_is_left_alone(ledger_path: Path, sleeper: Target) -> None:
    ledger = Ledger(ledger_path)
    ledger.process_started(sleeper)
    ledger.close()
    ledger.close()
    before = ledger_path.read_bytes()
    assert heal(ledger_path) == []
    assert ledger_path.read_bytes() == before
    assert is_alive(sleeper)


def test_the_owner_may_heal_its_own_ledger(ledger_path: Path, sleeper: Target) -> None:
    Ledger(ledger_path).process_started(sleeper)
    assert heal(ledger_path) == [f"killed n1 (pid {sleeper.pid}), left over from a dead run"]


def test_a_signal_never_hits_another_process(sleeper: Target) -> None:
    forged = Target(sleeper.pid, str(int(sleeper.start_time) + 1), "n1")
    with pytest.raises(ProcessGoneError, match="not the one that was meant"):
        send_to(forged, signal.SIGKILL)
    assert is_alive(sleeper)
    assert not is_alive(forged)


def test_a_zombie_counts_as_gone() -> None:
    child = subprocess.Popen([sys.executable, "-S", "-c", ""])
    target = Target.of(child.pid, "n1")
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert not is_alive(target)
    with pytest.raises(ProcessGoneError):
        send_to(target, signal.SIGCONT)
    assert trio.run(wait_gone, target, 1)
    child.wait()
    with pytest.raises(ProcessGoneError, match=f"no process {child.pid}"):
        Target.of(child.pid, "n1")


def test_stops_and_ends_are_waited_for(sleeper: Target) -> None:
    async def main() -> None:
        assert not await wait_stopped(sleeper, True, 0.02)
        send_to(sleeper, signal.SIGSTOP)
        assert await wait_stopped(sleeper, True, 2)
        send_to(sleeper, signal.SIGCONT)
        assert await wait_stopped(sleeper, False, 2)
        assert not await wait_gone(sleeper, 0.02)
        send_to(sleeper, signal.SIGKILL)
        assert await wait_gone(sleeper, 2)
        assert not await wait_stopped(sleeper, True, 2)

    trio.run(main)


# A process that leaves its parent's session and group and outlives it, as a job's program may.
_STRAY = """
import os, signal, subprocess, sys
child = subprocess.Popen(
    [sys.executable, "-S", "-c", "import signal; signal.pause()"],
    start_new_session=True, stdout=subprocess.DEVNULL,
)
print(child.pid, flush=True)
"""


def test_a_process_that_no_ledger_names_is_found_by_its_mark(
    ledger_path: Path, sleeper: Target
) -> None:
    mark = mark_of(ledger_path.parent)
    variable, _, value = mark.partition("=")
    said = subprocess.run(
        [sys.executable, "-S", "-c", _STRAY],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        env={**os.environ, variable: value},
    ).stdout
    stray = Target.of(int(said), "stray")
    assert [one.pid for one in find_strays(mark)] == [stray.pid]
    Ledger(ledger_path, mark=mark)
    make_owner_dead(ledger_path)

    [line] = heal(ledger_path)

    assert line.endswith(f"(pid {stray.pid}), left over from a dead run")
    assert not is_alive(stray)
    assert is_alive(sleeper)
    assert find_strays(mark) == []
