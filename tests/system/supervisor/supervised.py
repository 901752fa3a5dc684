"""One supervisor as a real process, and what a test may ask about it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from click.testing import CliRunner, Result

from atleastonce.system.entry import main as atleastonce
from atleastonce.system.supervisor.orphans import MARK, mark_of
from atleastonce.system.supervisor.statedir import StateDirectory

T = TypeVar("T")
PATIENCE_S = 60.0
"""For what has to happen at all, however slow the machine: only a test that fails waits it out."""
_HERE = Path(__file__).resolve().parent


def wait_for(look: Callable[[], T], what: str, patience_s: float = PATIENCE_S) -> T:
    """Wait until `look` returns something true, and return it."""
    deadline = time.monotonic() + patience_s
    pause = threading.Event()
    while True:
        found = look()
        if found:
            return found
        assert time.monotonic() < deadline, f"{what} did not happen within {patience_s:g} s"
        pause.wait(0.005)


def is_alive(pid: int) -> bool:
    """Whether a process exists and is no zombie."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="ascii")
    except (FileNotFoundError, ProcessLookupError):
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"


def base_config(state_dir: Path, port: int) -> dict[str, Any]:
    return {
        "app": "supervised_app:make_app",
        "workers": 2,
        "worker": {
            "queue": "jobs",
            "endpoints": [["127.0.0.1", port]],
            "prefetch": 4,
            "retry_after_s": 8.0,
            "timeout_s": 5.0,
            "block_for_s": 1.0,
            "try_timeout_s": 2.0,
            "settle_timeout_s": 1.0,
        },
        "state_dir": str(state_dir),
        "shutdown_grace_s": 6.0,
        "restart_backoff_s": 0.05,
        "restart_backoff_max_s": 0.5,
        "stable_after_s": 60.0,
        "renewal": {"interval_s": 0.3, "timeout_s": 0.5, "grace_s": 0.5, "margin_s": 0.5},
    }


@dataclass
class Supervised:
    """A supervisor that is started by `start` and certainly ended by `end`."""

    root: Path
    port: int
    config: dict[str, Any] = field(init=False)
    process: subprocess.Popen[bytes] | None = None
    pids: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.config = base_config(self.state_dir, self.port)

    @property
    def state_dir(self) -> Path:
        return self.root / "state"

    def allow_long_jobs(self) -> None:
        """Let a job run for as long as a test may take."""
        self.config["worker"].update(timeout_s=120.0, retry_after_s=180.0)
        self.config["shutdown_grace_s"] = 121.0

    def launch(self) -> subprocess.Popen[bytes]:
        """Start the process, and wait for nothing."""
        path = self.root / "config.json"
        path.write_text(json.dumps(self.config), encoding="utf-8")
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join(filter(None, [str(_HERE), os.environ.get("PYTHONPATH")])),
            "SUPERVISED_LOG": str(self.root / "jobs.log"),
        }
        with open(self.root / "supervisor.log", "ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "atleastonce.system.supervisor", str(path)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=environment,
                cwd=self.root,
                start_new_session=True,
            )
        return self.process

    def start(self) -> None:
        """Start it and wait until every worker lives."""
        self.launch()
        wait_for(lambda: len(self.workers()) == self.config["workers"], f"start\n{self.log()}")

    def status(self) -> dict[str, Any]:
        """The status file of the present master, or nothing."""
        try:
            status: dict[str, Any] = json.loads((self.state_dir / "status.json").read_bytes())
        except FileNotFoundError:
            return {}
        if self.process is None or status["master"] != self.process.pid:
            return {}
        self.pids |= {worker["pid"] for worker in status["workers"]} | {status["fork_server"]}
        return status

    def workers(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.status().get("workers", [])
        return found

    def running(self) -> dict[str, int]:
        """Jobs that run now, and the pids of their workers."""
        return {w["job"]: w["pid"] for w in self.workers() if w["state"] == "running"}

    def lines(self, name: str) -> list[dict[str, Any]]:
        path = self.state_dir / name
        if not path.exists():
            return []
        # What stands behind the last newline is being written.
        return [json.loads(line) for line in path.read_bytes().split(b"\n")[:-1]]

    def notes(self, kind: str) -> list[list[str]]:
        """Lines of the jobs' log whose second word is `kind`."""
        path = self.root / "jobs.log"
        if not path.exists():
            return []
        lines = [line.split() for line in path.read_text(encoding="utf-8").split("\n")[:-1]]
        return [line for line in lines if line[1] == kind]

    def log(self) -> str:
        path = self.root / "supervisor.log"
        return path.read_text(encoding="utf-8") if path.exists() else ""

    def command(self, *words: str) -> Result:
        """Run `atleastonce supervisor` on this supervisor's state directory."""
        where = ("--state-dir", str(self.state_dir))
        return CliRunner().invoke(atleastonce, ["supervisor", *words, *where])

    def asked(self, *words: str) -> dict[str, Any]:
        """The JSON that such a command prints; it must have succeeded."""
        done = self.command(*words, "--json")
        assert done.exit_code == 0, f"{done.output}\n{self.log()}"
        told: dict[str, Any] = json.loads(done.stdout)
        return told

    def codes(self, check: str) -> list[str]:
        """Why a check of `status` says no; an empty list means yes."""
        done = self.command("status", check, "--json")
        told = json.loads(done.stdout)
        found = [str(reason["code"]) for reason in told["reasons"]]
        assert done.exit_code == int(bool(found)), done.output
        return found

    def stop(self, patience_s: float = PATIENCE_S) -> int:
        """Stop it gracefully; return its exit status."""
        assert self.process is not None
        self.status()
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(patience_s)

    def _marked(self) -> list[int]:
        """Processes below a fork server of this state directory, dead ones left out."""
        if not self.state_dir.exists():
            return []
        wanted = f"{MARK}={mark_of(self.state_dir)}".encode()
        found = []
        for entry in Path("/proc").iterdir():
            try:
                if entry.name.isdecimal() and wanted in (entry / "environ").read_bytes():
                    found.append(int(entry.name))
            except OSError:
                continue
        return [pid for pid in found if is_alive(pid)]

    def end(self) -> None:
        """SIGKILL what is left, and see that nothing of it lives."""
        if self.process is None:
            return
        self.status()
        self.process.kill()
        self.process.wait(PATIENCE_S)
        pids = self.pids - {None}
        wait_for(lambda: not any(is_alive(pid) for pid in pids), "the end of every process")
        # Also of those that no status ever named, as a fork server that was still loading.
        wait_for(lambda: not self._marked(), "the end of all that was started under it")
        # A killed master cannot remove what a deep state directory made it put elsewhere.
        StateDirectory(self.state_dir).remove_socket()
