"""CPU and memory of processes and all that descend from them, read from /proc."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

TICKS = os.sysconf("SC_CLK_TCK")


def _stat(pid: int) -> list[str] | None:
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return text.rpartition(")")[2].split()


def tree(*roots: int) -> list[int]:
    """Return these processes and their living descendants."""
    children: dict[int, list[int]] = {}
    for entry in os.scandir("/proc"):
        if entry.name.isdigit() and (fields := _stat(int(entry.name))) and fields[0] != "Z":
            children.setdefault(int(fields[1]), []).append(int(entry.name))
    found = [root for root in roots if Path(f"/proc/{root}").exists()]
    for pid in found:
        found.extend(children.get(pid, ()))
    return found


def cpu_s(pids: Iterable[int]) -> float:
    """Return the CPU that they and their reaped children have used, seconds (10 ms ticks)."""
    return sum(
        sum(map(int, fields[11:15])) / TICKS for pid in pids if (fields := _stat(pid)) is not None
    )


def _rollup_mib(pid: int, prefix: str) -> float:
    try:
        rows = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except (FileNotFoundError, ProcessLookupError):
        return 0.0
    return sum(int(row.split()[1]) for row in rows if row.startswith(prefix)) / 1024


def pss_mib(pids: Iterable[int]) -> float:
    """Return their proportional share of memory, MiB: shared pages are divided by their users."""
    return sum(_rollup_mib(pid, "Pss:") for pid in pids)


def private_mib(pid: int) -> float:
    """Private clean and dirty pages of a process, MiB, as its smaps_rollup gives them."""
    return _rollup_mib(pid, "Private_")


def wait_until_idle(root: int, processes: int, deadline_s: float = 60.0) -> None:
    """Wait until a pool has so many processes, and they use less than a tenth of a core.

    A pool that does not come to rest is taken as it is at the deadline.

    Raises:
        TimeoutError: It does not even have so many processes by then.
    """
    deadline = time.monotonic() + deadline_s
    before = cpu_s(pids := tree(root))
    while True:
        time.sleep(0.5)
        used_s = cpu_s(found := tree(root)) - before
        if len(found) >= processes and found == pids and used_s < 0.05:
            return
        if time.monotonic() > deadline:
            if len(found) >= processes:
                return
            raise TimeoutError(f"{len(found)} of {processes} processes after {deadline_s:g} s")
        pids, before = found, cpu_s(found)


def end_tree(process: subprocess.Popen[bytes], graceful: signal.Signals) -> None:
    """Ask the top process to end; after 15 s, or when it is gone, kill what is left, by pid."""
    members = {pid: started for pid in tree(process.pid) if (started := _started(pid))}
    process.send_signal(graceful)
    try:
        process.wait(timeout=15)
    except subprocess.TimeoutExpired:
        members.update({pid: started for pid in tree(process.pid) if (started := _started(pid))})
        process.kill()
        process.wait()
    for pid, started in members.items():
        if _started(pid) == started:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def _started(pid: int) -> str | None:
    fields = _stat(pid)
    return None if fields is None or fields[0] == "Z" else fields[19]
