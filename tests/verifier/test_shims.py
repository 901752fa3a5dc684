"""The clock shims of a run, and what `verify doctor` tries out."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio

from atleastonce.nemesis.clockshim.shim import ShimClock
from atleastonce.nemesis.levels import PRELOADED_CLOCK, Finding
from atleastonce.verifier import levels
from atleastonce.verifier.errors import HarnessError
from atleastonce.verifier.levels import LevelError, choose, needs_of
from atleastonce.verifier.reaper import Identity, Reaper
from atleastonce.verifier.request import Request
from atleastonce.verifier.scenario import Scenario, make_scenario
from atleastonce.verifier.shim_probe import try_a_shim
from atleastonce.verifier.shims import Shims
from atleastonce.verifier.store import RunPaths

MASTER = Identity("master")


def scenario(*nemeses: str) -> Scenario:
    return make_scenario(
        Request(
            workload="jobs",
            nemeses=nemeses,
            nodes=3,
            workers=4,
            time_limit_s=40,
            rate=20,
            interval_s=5,
            seed=7,
            settings=(),
            bugs=(),
        )
    )


@pytest.fixture
def reaper(tmp_path: Path) -> Reaper:
    return Reaper(tmp_path / "reaped.jsonl", lambda _: Identity("worker"))


def test_run_without_such_a_fault_has_no_shim(tmp_path: Path, reaper: Reaper) -> None:
    shims = Shims(RunPaths(tmp_path), scenario("kill-leader", "bump-clock"), reaper)
    shims.write()
    assert shims.variables(MASTER, "supervisor") == {}
    assert shims.clock("supervisor") is None
    assert list(tmp_path.glob("*.so")) == []


def test_supervisors_and_nobody_else_are_started_with_their_shim(
    tmp_path: Path, reaper: Reaper, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("LD_PRELOAD", raising=False)
    shims = Shims(RunPaths(tmp_path), scenario("bump-supervisor-clock"), reaper)
    shims.write()
    path = tmp_path / "supervisor-clock.so"
    assert path.stat().st_mode & 0o777 == 0o600
    assert shims.variables(MASTER, "supervisor") == {"LD_PRELOAD": str(path)}
    assert shims.variables(Identity("node", "n1"), "n1") == {}
    assert shims.variables(Identity("stranger"), "stranger") == {}


def test_program_in_a_supervisors_environment_tells_how_wrong_its_clock_is(
    tmp_path: Path, reaper: Reaper
) -> None:
    shims = Shims(RunPaths(tmp_path), scenario("bump-supervisor-clock"), reaper)
    shims.write()
    clock = shims.clock("supervisor")
    assert clock is not None

    async def main() -> list[int | None]:
        told = []
        async with trio.open_nursery() as nursery:
            await nursery.start(reaper.run)
            with ShimClock(clock.path) as shim:
                for offset_us in (0, 3_600_000_000, -300_000_000):
                    shim.move(offset_us * 1000)
                    told.append(await clock.ask_error_us())
            nursery.cancel_scope.cancel()
        return told

    told = trio.run(main)
    for seen_us, offset_us in zip(told, (0, 3_600_000_000, -300_000_000), strict=True):
        assert seen_us is not None
        assert abs(seen_us - offset_us) < 200_000


def test_run_folder_that_cannot_be_preloaded_ends_the_run_with_one_line(
    tmp_path: Path, reaper: Reaper
) -> None:
    folder = tmp_path / "a b"
    folder.mkdir()
    shims = Shims(RunPaths(folder), scenario("bump-supervisor-clock"), reaper)
    with pytest.raises(HarnessError, match=r"cannot be moved: .* it holds ' '; choose another"):
        shims.write()


def test_probe_says_what_it_saw() -> None:
    assert try_a_shim() == "a program saw its clock off by +3600 s, -86400 s, +0 s"


def test_machine_that_is_no_x86_64_is_refused_before_anything_starts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(
        levels,
        "probe_machine",
        lambda names: [
            Finding(name, name != PRELOADED_CLOCK, "aarch64", "nothing", "use another machine")
            for name in names
        ],
    )
    with pytest.raises(LevelError, match="'bump-supervisor-clock' needs 'clock-shim'") as refused:
        choose("auto", needs_of(["bump-supervisor-clock"]))
    assert "preloaded clock: aarch64; use another machine" in str(refused.value)
    assert "\n" not in str(refused.value)
    assert choose("auto", needs_of(["bump-clock"])).level.number == 0
