"""What a run may leave on a machine: processes, mounts, loop devices, namespaces, rules, groups."""

from __future__ import annotations

import os
import shutil
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from atleastonce.nemesis.clockshim.shim import ShimClock, ShimError

CAMPAIGN_VARIABLE: Final = "ATLEASTONCE_CAMPAIGN"
_PAUSE_S: Final = 0.02
_GROUPS: Final = Path("/sys/fs/cgroup")
_OURS: Final = "atleastonce"
_EVENT: Final = threading.Event()


def find_processes(mark: str) -> list[str]:
    """Living processes with a mark in their environment, with state and command line."""
    found = []
    wanted = f"{CAMPAIGN_VARIABLE}={mark}".encode()
    for entry in os.scandir("/proc"):
        if not entry.name.isdigit():
            continue
        with suppress(OSError):
            folder = Path(entry.path)
            if wanted not in (folder / "environ").read_bytes().split(b"\0"):
                continue
            state = (folder / "stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0]
            command = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode().strip()
            found.append(f"process {entry.name} ({state}): {command[-120:]}")
    return found


def wait_gone(mark: str, wait_s: float) -> list[str]:
    """Wait until no process with a mark is left; those that are left then."""
    deadline_s = time.monotonic() + wait_s
    while (found := find_processes(mark)) and time.monotonic() < deadline_s:
        _EVENT.wait(_PAUSE_S)
    return found


def find_things(store: Path) -> list[str]:
    """Mounts, loop devices, moved clocks, namespaces, rules and groups that a store's runs made."""
    named = (*_namespaces(), *_rules(), *_groups())
    own = (*_mounts(store), *_loops(store), *_clocks(store))
    return [*own, *(one for one in named if not _is_of_others(one))]


def _is_of_others(name: str) -> bool:
    """Whether a name holds the number of a living process, which made it and still uses it."""
    return any(part.isdigit() and Path("/proc", part).exists() for part in name.split("-"))


def _mounts(store: Path) -> Iterator[str]:
    for line in Path("/proc/self/mountinfo").read_text(encoding="utf-8").splitlines():
        if str(store) in line:
            yield f"mount {line.split()[4]}"


def _loops(store: Path) -> Iterator[str]:
    for file in Path("/sys/block").glob("loop*/loop/backing_file"):
        with suppress(OSError):
            backing = file.read_text(encoding="utf-8").strip()
            if str(store) in backing:
                yield f"loop device {file.parent.parent.name} of {backing}"


def _clocks(store: Path) -> Iterator[str]:
    for path in store.glob("*/*/*-clock.so"):
        # One that was killed while it wrote the file has moved nothing.
        with suppress(ShimError, OSError), ShimClock(path) as clock:
            if clock.offset_ns:
                yield f"time of day moved by {path}"


def _namespaces() -> Iterator[str]:
    with suppress(OSError):
        yield from (f"namespace {n}" for n in os.listdir("/run/netns") if _OURS in n)


def _rules() -> Iterator[str]:
    command = shutil.which("nft")
    if command is None:
        return
    told = subprocess.run([command, "list", "tables"], capture_output=True, text=True, check=False)
    yield from (f"rules {line}" for line in told.stdout.splitlines() if _OURS in line)


def _groups() -> Iterator[str]:
    for folder, names, _ in os.walk(_GROUPS):
        yield from (f"group {folder}/{name}" for name in names if _OURS in name)
