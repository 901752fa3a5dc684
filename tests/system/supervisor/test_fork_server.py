"""A fork server by itself: what it does when its master is gone before it knows of it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from atleastonce.system.supervisor.forkwire import Boot, encode

from .supervised import is_alive, wait_for

pytestmark = pytest.mark.cluster
_HERE = Path(__file__).resolve().parent

# It asks and is gone; an interpreter takes longer to start than this process takes to end.
MASTER = """
import os, subprocess, sys
requests_read, requests_write = os.pipe()
replies_read, replies_write = os.pipe()
os.write(requests_write, sys.argv[1].encode())
server = subprocess.Popen(
    [sys.executable, "-m", "atleastonce.system.supervisor.fork_server", str(replies_write)],
    stdin=requests_read, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    pass_fds=(replies_write,), start_new_session=True,
)
print(server.pid, flush=True)
os._exit(0)
"""


@pytest.mark.parametrize("loads", [False, True])
def test_one_whose_master_died_before_it_could_hear_of_it_loads_nothing_and_ends(
    tmp_path: Path, loads: bool
) -> None:
    log = tmp_path / "jobs.log"
    log.write_text("", encoding="ascii")  # There: the application loads for ever.
    boot = Boot("supervised_app:load_once_at_once", str(tmp_path / "deaths.jsonl"), 1, loads)
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(filter(None, [str(_HERE), os.environ.get("PYTHONPATH")])),
        "SUPERVISED_LOG": str(log),
    }
    master = subprocess.run(
        [sys.executable, "-c", MASTER, encode(boot).decode()],
        stdout=subprocess.PIPE,
        env=environment,
        cwd=tmp_path,
        check=True,
    )
    server = int(master.stdout)
    try:
        wait_for(lambda: not is_alive(server), "the end of the fork server")
    finally:
        if is_alive(server):
            os.kill(server, signal.SIGKILL)
    assert log.read_bytes() == b"", "it began to load"
