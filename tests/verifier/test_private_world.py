"""Commands inside a private world: signals, exit status, and nothing left of them.

Where this machine lets nobody have such a world, the command must say so.
"""

from __future__ import annotations

import os
import pty
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from atleastonce.nemesis.levels import missing_of
from atleastonce.verifier.levels import probe_machine

HAS_WORLD = not missing_of(1, probe_machine())
HISTORIES = "jobs-none/*/history.jsonl"
LONG = ("--level", "1", "--nemesis", "none", "--time-limit", "60", "--workers", "1")


def _commands(mark: str) -> dict[int, str]:
    """The command lines of the processes that name `mark`, by number as seen from here."""
    found = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(OSError):
                command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()
                if mark in command:
                    found[int(entry.name)] = command
    return found


def _wait(condition: Callable[[], bool], what: str, within_s: float = 30) -> None:
    deadline_s = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < deadline_s, what
        select.select([], [], [], 0.02)


def _run(store: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        (sys.executable, "-m", "atleastonce.verifier", "run", *LONG, "--store", str(store)),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


def _refused(process: subprocess.Popen[str]) -> None:
    told, _ = process.communicate(timeout=30)
    assert process.returncode == 3
    assert told.startswith("verify: level 1 cannot be had: ")


@pytest.fixture
def running(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """A long run at level 1 that has begun its load, or the end of one that was refused."""
    process = _run(tmp_path)
    try:
        if HAS_WORLD:
            _wait(
                lambda: any(path.stat().st_size for path in tmp_path.glob(HISTORIES)),
                "no load began",
            )
        yield process
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        with process:
            process.wait()


def _inside(store: Path) -> int:
    """The first process of the world."""
    (pid,) = (
        pid for pid, told in _commands(str(store)).items() if "atleastonce.verifier.inside" in told
    )
    return pid


@pytest.mark.cluster
@pytest.mark.parametrize("victim", ["wrapper", "inside"])
def test_nothing_is_left_of_a_world_when_either_side_is_killed(
    tmp_path: Path, running: subprocess.Popen[str], victim: str
) -> None:
    if not HAS_WORLD:
        _refused(running)
        return
    assert len(_commands(str(tmp_path))) > 4, "nodes and workers run"

    os.kill(running.pid if victim == "wrapper" else _inside(tmp_path), signal.SIGKILL)

    _wait(lambda: not _commands(str(tmp_path)), "processes are left", within_s=5)
    running.wait(timeout=5)
    if victim == "inside":
        assert running.returncode == 4
        assert running.stdout is not None
        assert "ended by SIGKILL; nothing of it is left running" in running.stdout.read()


@pytest.mark.cluster
def test_signal_to_the_outside_reaches_the_run_once_and_ends_it_gracefully(
    tmp_path: Path, running: subprocess.Popen[str]
) -> None:
    if not HAS_WORLD:
        _refused(running)
        return

    os.kill(running.pid, signal.SIGINT)
    told, _ = running.communicate(timeout=60)

    assert running.returncode == 3, told
    assert "interrupted during load" in told
    assert "killed on a second signal" not in next(tmp_path.glob(HISTORIES)).read_text()
    assert not _commands(str(tmp_path))


@pytest.mark.cluster
def test_ctrl_c_on_a_terminal_reaches_the_run_once_and_ends_it_gracefully(tmp_path: Path) -> None:
    command = ("-m", "atleastonce.verifier", "run", *LONG, "--store", str(tmp_path))
    pid, terminal = pty.fork()
    if pid == 0:
        os.execv(sys.executable, (sys.executable, *command))
    shown, sent, ended = b"", False, 0
    try:
        deadline_s = time.monotonic() + 60
        while not ended:
            assert time.monotonic() < deadline_s, shown.decode(errors="replace")[-2000:]
            if not sent and any(path.stat().st_size for path in tmp_path.glob(HISTORIES)):
                os.write(terminal, b"\x03")
                sent = True
            if select.select([terminal], [], [], 0.05)[0]:
                # An error is the end of the last process that had the terminal open.
                with suppress(OSError):
                    shown += os.read(terminal, 65_536)
            ended, status = os.waitpid(pid, os.WNOHANG)
    finally:
        if not ended:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
        os.close(terminal)

    told = shown.decode(errors="replace")
    assert os.waitstatus_to_exitcode(status) == 3, told[-2000:]
    if HAS_WORLD:
        assert "interrupted during load" in told
        history = next(tmp_path.glob(HISTORIES)).read_text()
        assert "killed on a second signal" not in history
        assert not _commands(str(tmp_path))


@pytest.mark.cluster
def test_another_command_leaves_the_ledger_of_a_living_world_alone(
    tmp_path: Path, running: subprocess.Popen[str]
) -> None:
    if not HAS_WORLD:
        _refused(running)
        return

    healed = _heal(tmp_path)
    os.kill(running.pid, signal.SIGKILL)
    running.wait()
    _wait(lambda: not _commands(str(tmp_path)), "processes are left", within_s=5)

    assert "nothing to heal" in healed
    assert "closed its ledger" in _heal(tmp_path)


def _heal(store: Path) -> str:
    return subprocess.run(
        (sys.executable, "-m", "atleastonce.verifier", "heal", "--store", str(store)),
        capture_output=True,
        text=True,
        check=True,
    ).stdout


def test_exit_status_and_output_come_out_of_the_world(tmp_path: Path) -> None:
    done = subprocess.run(
        (sys.executable, "-m", "atleastonce.verifier.wrapper", "check", str(tmp_path / "nowhere")),
        capture_output=True,
        text=True,
        check=False,
    )

    if HAS_WORLD:
        assert done.returncode == 2
        assert done.stderr.startswith("verify: ")
        assert str(tmp_path / "nowhere") in done.stderr
    else:
        assert done.returncode == 4
        assert "a private world cannot be" in done.stderr
