"""Control groups that bound the memory or the CPU time of some processes (root only).

Both versions are known: a machine may have the controllers in either. A group lies beside all
others at the top of its hierarchy, and its processes go back to where they were when it is
released.
"""

from __future__ import annotations

import errno
import os
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal

import msgspec

from ..histories.ops import Json

Controller = Literal["memory", "cpu"]

CONTROLLERS: Final[tuple[Controller, ...]] = ("memory", "cpu")
_PERIOD_US: Final = 100_000
_BUSY_S: Final = 5.0
_BUSY_PAUSE_S: Final = 0.01


class NoControllerError(Exception):
    """The machine does not let this controller be used; the message is one line."""


class Group(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A group as the ledger holds it.

    Attributes:
        folders: Its folders, one a hierarchy.
    """

    folders: list[str]


@dataclass(frozen=True, slots=True)
class _Hierarchy:
    """Where a controller is.

    Attributes:
        version: 1 or 2.
        top: Its highest folder here.
    """

    version: int
    top: Path


def find_hierarchy(controller: Controller) -> _Hierarchy:
    """Find where a controller is mounted.

    Raises:
        NoControllerError: Nowhere, or it cannot be handed to a group.
    """
    for line in Path("/proc/self/mountinfo").read_text(encoding="utf-8").splitlines():
        before, _, after = line.partition(" - ")
        kind, _, options = after.split(" ", 2)
        top = Path(before.split()[4])
        if kind == "cgroup" and controller in options.split(" ")[-1].split(","):
            return _Hierarchy(1, top)
        if kind == "cgroup2" and _has(top, "cgroup.controllers", controller):
            if not _has(top, "cgroup.subtree_control", controller):
                raise NoControllerError(f"{controller} is not handed down in {top}")
            return _Hierarchy(2, top)
    raise NoControllerError(f"no control group hierarchy has {controller}")


def _has(top: Path, file: str, word: str) -> bool:
    try:
        return word in (top / file).read_text(encoding="ascii").split()
    except OSError:
        return False


def _write(path: Path, value: str) -> None:
    # A text file would hide the kernel's refusal until it is collected.
    descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(descriptor, value.encode("ascii"))
    finally:
        os.close(descriptor)


@dataclass(slots=True)
class ControlGroup:
    """One group: a folder in the hierarchy of each controller that it uses.

    Every method but `read` raises `OSError` where the kernel refuses.

    Attributes:
        name: Of its folders; unique on the machine.
        controllers: What it bounds.
    """

    name: str
    controllers: tuple[Controller, ...]
    _hierarchies: dict[Controller, _Hierarchy] = field(default_factory=dict)
    _homes: dict[Path, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for controller in self.controllers:
            self._hierarchies[controller] = find_hierarchy(controller)

    def folder(self, controller: Controller) -> Path:
        """Where the group is, for one controller."""
        return self._hierarchies[controller].top / self.name

    def folders(self) -> list[Path]:
        """Where the group is."""
        return list(dict.fromkeys(self.folder(each) for each in self.controllers))

    def thing(self) -> dict[str, Json]:
        """What the ledger holds, so that `undo` finds it."""
        plain: dict[str, Json] = msgspec.to_builtins(
            Group(folders=[str(f) for f in self.folders()])
        )
        return plain

    def make(self) -> None:
        """Make it, empty and without bounds."""
        for folder in self.folders():
            folder.mkdir(exist_ok=True)

    def admit(self, pid: int) -> None:
        """Move a process in; its later children are born there."""
        for controller, hierarchy in self._hierarchies.items():
            home = _home(pid, controller if hierarchy.version == 1 else "")
            self._homes.setdefault(self.folder(controller), home)
        for folder in self.folders():
            _write(folder / "cgroup.procs", str(pid))

    def bound_memory(self, size_bytes: int) -> None:
        """Have the kernel kill a process of the group when all of it need more than this."""
        version, folder = self._hierarchies["memory"].version, self.folder("memory")
        _write(
            folder / ("memory.limit_in_bytes" if version == 1 else "memory.max"), str(size_bytes)
        )
        # Swap would take what no longer fits.
        swap = folder / "memory.swap.max"
        if swap.exists():
            _write(swap, "0")

    def bound_cpu(self, share: float) -> None:
        """Give the group so much of one CPU; 0.1 is 10 ms in every 100."""
        version, folder = self._hierarchies["cpu"].version, self.folder("cpu")
        quota_us = max(1000, round(share * _PERIOD_US))
        if version == 2:
            _write(folder / "cpu.max", f"{quota_us} {_PERIOD_US}")
        else:
            _write(folder / "cpu.cfs_period_us", str(_PERIOD_US))
            _write(folder / "cpu.cfs_quota_us", str(quota_us))

    def read(self) -> dict[str, int]:
        """Return what the bounds did: `oom_kill` and `nr_throttled`, as far as they exist."""
        files = {"memory": ("memory.events", "memory.oom_control"), "cpu": ("cpu.stat",)}
        found: dict[str, int] = {}
        for controller in self.controllers:
            for name in files[controller]:
                path = self.folder(controller) / name
                for line in path.read_text(encoding="ascii").splitlines() if path.exists() else ():
                    key, _, value = line.partition(" ")
                    if key in ("oom_kill", "nr_throttled"):
                        found[key] = int(value)
        return found

    def release(self) -> None:
        """Send the processes back to where they were, and remove the group."""
        for folder in self.folders():
            _remove(folder, self._homes.get(folder, ""))


def undo(thing: dict[str, Json]) -> list[str]:
    """Remove a group that a dead run left behind."""
    done = []
    for folder in map(Path, msgspec.convert(thing, Group).folders):
        if folder.exists():
            _remove(folder, "")
            done.append(f"removed control group {folder}")
    return done


def _home(pid: int, controller: str) -> str:
    """The group of a process, below the top of the hierarchy of a controller; "" is version 2's."""
    for line in Path(f"/proc/{pid}/cgroup").read_text(encoding="ascii").splitlines():
        _, controllers, path = line.split(":", 2)
        if controller in controllers.split(","):
            return path.lstrip("/")
    return ""


def _remove(folder: Path, home: str) -> None:
    back = folder.parent / home / "cgroup.procs"
    if not back.exists():
        back = folder.parent / "cgroup.procs"
    deadline_s = time.monotonic() + _BUSY_S
    while folder.exists():
        for pid in (folder / "cgroup.procs").read_text(encoding="ascii").split():
            try:
                _write(back, pid)
            except ProcessLookupError:
                continue  # It ended meanwhile.
        try:
            folder.rmdir()
        except OSError as error:
            if error.errno != errno.EBUSY or time.monotonic() > deadline_s:
                raise
            time.sleep(_BUSY_PAUSE_S)
