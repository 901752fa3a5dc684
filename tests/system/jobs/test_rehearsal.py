"""The dry run of the worker's loop before workers are forked."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from atleastonce.system.jobs.rehearsal import rehearse


def test_rehearsal_runs_to_its_end_and_leaves_nothing_open(tmp_path: Path) -> None:
    before = sorted(os.listdir("/proc/self/fd"))
    assert rehearse(tmp_path / "rehearsal")
    assert sorted(os.listdir("/proc/self/fd")) == before
    assert not list(tmp_path.iterdir())


def test_what_an_interrupted_rehearsal_left_is_no_obstacle(tmp_path: Path) -> None:
    folder = tmp_path / "rehearsal"
    folder.mkdir()
    (folder / "1.state").write_text("left")
    assert rehearse(folder)
    assert not folder.exists()


def test_rehearsal_without_a_place_for_its_journal_says_so(tmp_path: Path) -> None:
    assert not rehearse(tmp_path / "missing" / "rehearsal")


def test_worker_needs_no_module_that_the_fork_server_has_not_loaded(tmp_path: Path) -> None:
    script = (
        "import sys; from pathlib import Path\n"
        "from atleastonce.system.supervisor import fork_server\n"
        "before = set(sys.modules)\n"
        "fork_server.practise(Path(sys.argv[1]))\n"
        "assert set(sys.modules) == before, set(sys.modules) - before\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path)], capture_output=True, text=True, check=False
    )
    assert not done.returncode, done.stderr
    assert not done.stderr


def test_fork_server_loads_no_event_loop_and_starts_no_thread() -> None:
    script = (
        "import sys; from atleastonce.system.supervisor import fork_server\n"
        "print(sorted({'trio', 'asyncio', 'threading', 'importlib.metadata'} & set(sys.modules)))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout == "[]\n"
