"""What only root can have: a file system whose power is cut, and control groups.

Where these tests do not run as root they see that both are refused.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from atleastonce.nemesis.cgroups import CONTROLLERS, ControlGroup, NoControllerError
from atleastonce.nemesis.ext4 import Ext4Image
from atleastonce.nemesis.levels import CONTROL_GROUPS, LOOP_EXT4
from atleastonce.nemesis.namespaces import CLONE_NEWNS, keep_mounts_private, leave
from atleastonce.nemesis.power_cut_act import fails, listing, losses
from atleastonce.nemesis.undo import UNDO
from atleastonce.verifier.levels import probe_machine
from atleastonce.verifier.probing import LevelProbe, try_all

HAS = {finding.name: finding.passed for finding in probe_machine((LOOP_EXT4, CONTROL_GROUPS))}
BYTES = 8 << 20


def in_child(scenario: Callable[[], None]) -> str:
    """Run a scenario with mounts of its own; why it failed, or nothing."""

    def attempt() -> str:
        leave(CLONE_NEWNS)
        keep_mounts_private()
        scenario()
        return "done"

    (finding,) = try_all([LevelProbe("scenario", attempt, "", "", "")], 20)
    return "" if finding.passed else finding.found


def test_power_cut_takes_what_no_sync_covered_and_nothing_else(tmp_path: Path) -> None:
    def scenario() -> None:
        volume = Ext4Image(tmp_path / "image", tmp_path / "data")
        volume.make(BYTES)
        volume.mount()
        assert os.listdir(volume.point) == []
        for name in ("kept", "renamed"):
            with (volume.point / name).open("wb") as file:
                file.write(b"x" * 4096)
                file.flush()
                os.fsync(file.fileno())
        root = os.open(volume.point, os.O_RDONLY)
        os.fsync(root)
        os.close(root)
        (volume.point / "new").write_bytes(b"y" * 100)
        (volume.point / "renamed").rename(volume.point / "other")
        with (volume.point / "kept").open("ab") as file:
            file.write(b"z" * 50)
        before = listing(volume.point)
        assert not fails(volume.point)
        volume.cut_power()
        assert fails(volume.point)
        volume.unmount()
        volume.mount()
        assert losses(before, listing(volume.point)) == {
            "vanished": ["new", "other"],
            "back": ["renamed"],
            "shorter": {"kept": 50},
        }
        volume.unmount()

    why = in_child(scenario)

    assert not why if HAS[LOOP_EXT4] else why


def test_undo_unmounts_in_the_same_mount_namespace_only(tmp_path: Path) -> None:
    def scenario() -> None:
        volume = Ext4Image(tmp_path / "image", tmp_path / "data")
        volume.make(BYTES)
        thing = volume.thing()
        undo = UNDO["ext4"].undo
        assert undo(thing) == []
        volume.mount()
        assert undo({**thing, "mounts": 1}) == []
        assert volume.is_mounted()
        assert undo(thing) == [f"unmounted {volume.point}"]
        assert not volume.is_mounted()
        assert undo(thing) == []

    why = in_child(scenario)

    assert not why if HAS[LOOP_EXT4] else why


def sleeper() -> subprocess.Popen[bytes]:
    return subprocess.Popen((sys.executable, "-S", "-c", "import signal; signal.pause()"))


def make_group(name: str) -> ControlGroup | None:
    """A group with every controller, or None where nobody can have one."""
    try:
        group = ControlGroup(name, CONTROLLERS)
        group.make()
    except (NoControllerError, OSError):
        assert not HAS[CONTROL_GROUPS]
        return None
    return group


@pytest.mark.parametrize("by_undo", [False, True])
def test_group_is_left_by_its_processes_and_removed(by_undo: bool) -> None:
    group = make_group(f"atleastonce-test-{os.getpid()}")
    if group is None:
        return
    with sleeper() as process:
        try:
            before = Path(f"/proc/{process.pid}/cgroup").read_text()
            group.admit(process.pid)
            assert group.name in Path(f"/proc/{process.pid}/cgroup").read_text()
            if by_undo:
                undone = UNDO["control-group"].undo(group.thing())
                assert undone == [f"removed control group {folder}" for folder in group.folders()]
                assert UNDO["control-group"].undo(group.thing()) == []
            else:
                group.release()
                assert Path(f"/proc/{process.pid}/cgroup").read_text() == before
            assert group.name not in Path(f"/proc/{process.pid}/cgroup").read_text()
            assert not any(folder.exists() for folder in group.folders())
        finally:
            process.kill()


def test_bound_on_cpu_throttles_and_bound_on_memory_kills() -> None:
    group = make_group(f"atleastonce-test-bounds-{os.getpid()}")
    if group is None:
        return
    code = (
        "import sys; sys.stdin.read(1)\n"
        "for _ in range(3_000_000): pass\n"
        "kept = [bytearray(1 << 20) for _ in range(400)]\n"
    )
    try:
        group.bound_memory(64 << 20)
        group.bound_cpu(0.2)
        with subprocess.Popen((sys.executable, "-S", "-c", code), stdin=subprocess.PIPE) as process:
            group.admit(process.pid)
            begun_s = time.monotonic()
            process.communicate(b"g", timeout=60)
            assert time.monotonic() - begun_s > 0.1
        assert process.returncode == -signal.SIGKILL
        assert group.read()["oom_kill"] == 1
        assert group.read()["nr_throttled"] > 0
    finally:
        group.release()
