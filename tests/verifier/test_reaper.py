"""One owner for every death."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import trio

from atleastonce.histories.deaths import read_deaths
from atleastonce.verifier.reaper import Identity, Reaper, descendants

_WAIT = "import sys; sys.stdin.read()"

# Starts a child that forks a grandchild and is killed; adopts the grandchild and kills it, too.
_ORPHAN = '''
import json, os, signal, subprocess, sys
from pathlib import Path
import trio
from atleastonce.verifier.reaper import Identity, Reaper, become_subreaper, descendants

GRANDCHILD = """
import os, sys
if os.fork() == 0:
    print(os.getpid(), flush=True)
sys.stdin.read()
"""

async def main():
    reaper = Reaper(Path(sys.argv[1]), lambda pid: Identity("worker", popping=True))
    async with trio.open_nursery() as nursery:
        await nursery.start(reaper.run)
        child = subprocess.Popen(
            [sys.executable, "-c", GRANDCHILD], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        reaper.register(child, Identity("master"))
        grandchild = int(child.stdout.readline())
        os.kill(child.pid, signal.SIGKILL)
        await reaper.wait_exit(child.pid)
        assert reaper.kill_all(frozenset()) == 0
        assert reaper.status(grandchild) == signal.SIGKILL
        assert descendants() == frozenset()
        nursery.cancel_scope.cancel()
    reaper.close()
    print(json.dumps([child.pid, grandchild]))

become_subreaper()
trio.run(main)
'''


def test_registered_child_is_reaped_with_its_raw_status(tmp_path: Path) -> None:
    async def main() -> tuple[int, int]:
        reaper = Reaper(tmp_path / "reaped.jsonl", lambda pid: Identity("worker"))
        async with trio.open_nursery() as nursery:
            await nursery.start(reaper.run)
            child = subprocess.Popen([sys.executable, "-c", _WAIT], stdin=subprocess.PIPE)
            reaper.register(child, Identity("node", "n1"))
            assert child.pid in descendants()
            os.kill(child.pid, signal.SIGKILL)
            status = await reaper.wait_exit(child.pid)
            assert child.returncode == -signal.SIGKILL
            nursery.cancel_scope.cancel()
        assert child.stdin is not None
        child.stdin.close()
        reaper.close()
        return child.pid, status

    pid, status = trio.run(main)

    assert status == signal.SIGKILL
    [death] = read_deaths(tmp_path / "reaped.jsonl")
    assert (death.pid, death.role, death.node) == (pid, "node", "n1")
    assert (death.signal, death.exit) == (signal.SIGKILL, None)


def test_orphan_is_adopted_killed_and_recorded(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _ORPHAN, str(tmp_path / "reaped.jsonl")],
        capture_output=True,
        text=True,
        timeout=20,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    child, grandchild = json.loads(done.stdout)
    deaths = {death.pid: death for death in read_deaths(tmp_path / "reaped.jsonl")}
    assert deaths[child].role == "master"
    assert deaths[grandchild].role == "worker"
    assert deaths[grandchild].popping
