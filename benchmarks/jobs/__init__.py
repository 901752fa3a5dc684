"""Ours beside RQ, Celery, Dramatiq and Huey in one run: rates, latency, memory, CPU of each job.

Every system runs the same body on the same machine. Ours is one node that syncs every acknowledged
write; the peers' Redis has an append-only file, fsync always. One after the other, never together.
"""

from __future__ import annotations

import argparse
import platform
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import FrameType

from ..peer_runs import VENV, prepare
from .contenders import OURS, PEER_NAMES
from .plan import FULL, QUICK
from .session import Session, ablate, measure
from .table import as_json, render


def versions() -> dict[str, str]:
    """Name what was measured."""
    wanted = (
        "import importlib.metadata as m, sys\n"
        "for name in sys.argv[1:]: print(name, m.version(name))"
    )
    command: list[str | Path] = [VENV / "bin" / "python", "-c", wanted, *PEER_NAMES, "redis"]
    listed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    server = subprocess.run(
        ["redis-server", "--version"], capture_output=True, text=True, check=True
    ).stdout.split()[2]
    return {
        "python": platform.python_version(),
        "redis-server": server.removeprefix("v="),
        **dict(line.split() for line in listed.splitlines()),
    }


def leave(number: int, _frame: FrameType | None) -> None:
    """End on a signal as on an error: everything that was started is ended first."""
    sys.exit(128 + number)


def main(arguments: list[str] | None = None) -> int:
    """Print the tables; 1 when a phase failed, or a job was lost or ran twice."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks jobs", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small sizes: proof that it works")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all figures there")
    parser.add_argument(
        "--only", nargs="+", choices=(OURS, *PEER_NAMES), default=(OURS, *PEER_NAMES)
    )
    parser.add_argument("--no-ablation", action="store_true", help="leave our settings alone")
    options = parser.parse_args(arguments)
    if options.json is not None and not options.json.absolute().parent.is_dir():
        parser.error(f"--json is {options.json}; its folder does not exist")
    plan = QUICK if options.quick else FULL
    signal.signal(signal.SIGTERM, leave)
    prepare()
    began = time.monotonic()
    sessions = [measure(name, plan) for name in options.only]
    ablations: list[Session] = []
    if OURS in options.only and not options.no_ablation:
        ablations = ablate(plan)
    print(render(sessions, ablations))
    took_s = round(time.monotonic() - began)
    print(f"\ntook {took_s} s")
    if options.json is not None:
        options.json.write_bytes(
            as_json(plan, sessions, ablations, versions=versions(), took_s=took_s)
        )
    return 0 if all(session.is_exact for session in (*sessions, *ablations)) else 1
