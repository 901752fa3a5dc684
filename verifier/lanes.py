"""All lanes: each is a `verify run` of its own, and together they make one table."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

import msgspec

from ..checkers.verdict import Json
from ..workloads.lanes.lane import PROFILES
from ..workloads.lanes.registry import LANES
from .errors import Exit
from .lane_scenario import find_lane, find_profile
from .tables import table

RUN_S_MAX: Final = 900.0
"""A lane that takes longer is given up, and counts as a failure of the harness."""

_WORST_FIRST: Final = (Exit.INVALID, Exit.HARNESS, Exit.USAGE, Exit.UNKNOWN, Exit.VALID)
_WORDS: Final = {Exit.VALID: "valid", Exit.INVALID: "INVALID", Exit.UNKNOWN: "unknown"}
_NOT_RUN: Final = "not run"
_HEAD: Final = ("lane", "profile", "verdict", "s", "starts", "completed", "failed", "broken")


class LaneCell(msgspec.Struct, frozen=True):
    """One lane in one profile; `why_not` says why it does not exist."""

    lane: str
    profile: str
    why_not: str = ""


class LaneResult(msgspec.Struct, frozen=True, kw_only=True):
    """How a lane ended.

    Attributes:
        lane: Its name.
        profile: Its profile.
        status: Exit status of `verify run`.
        took_s: From first dispatch to last act; None where nothing is known.
        starts: Runs of its jobs.
        completed: Runs that completed.
        failed: Jobs that were given up.
        broken: Rules with violations, by number.
        reasons: Why it is unknown, or the last line of a failure.
        run: Its folder.
        run_s: How long the whole run took.
    """

    lane: str
    profile: str
    status: int
    took_s: float | None = None
    starts: int = 0
    completed: int = 0
    failed: int = 0
    broken: dict[str, int] = {}
    reasons: list[str] = []
    run: str = ""
    run_s: float = 0.0

    @property
    def word(self) -> str:
        """The verdict in a word."""
        return next((word for code, word in _WORDS.items() if code == self.status), "FAILED")

    def row(self) -> tuple[str, ...]:
        """Its line of the table."""
        took = "" if self.took_s is None else f"{self.took_s:.1f}"
        counts = (str(self.starts), str(self.completed), str(self.failed))
        found = ", ".join(f"{rule} {count}" for rule, count in self.broken.items())
        why = found or "; ".join(self.reasons[:1])
        return (self.lane, self.profile, self.word, took, *counts, why)


class _Rule(msgspec.Struct):
    violations: int = 0


class _Lane(msgspec.Struct):
    took_s: float | None = None
    starts: int = 0
    completed: int = 0
    given_up: int = 0


class _Strength(msgspec.Struct):
    lane: _Lane = msgspec.field(default_factory=_Lane)


class _Report(msgspec.Struct):
    rules: dict[str, _Rule] = {}
    strength: _Strength = msgspec.field(default_factory=_Strength)
    reasons: list[str] = []
    run: str = ""


def all_cells(lanes: Sequence[str], profiles: Sequence[str]) -> list[LaneCell]:
    """Return every lane in every profile, or those that were chosen.

    Raises:
        UsageError: A name is unknown.
    """
    chosen = [find_profile(name) for name in profiles] or list(PROFILES.values())
    picked = [find_lane(name) for name in lanes] or list(LANES.values())
    return [
        LaneCell(lane.name, profile.name, lane.not_in.get(profile.name, ""))
        for lane in picked
        for profile in chosen
    ]


def run_cell(cell: LaneCell, store: Path, options: Sequence[str]) -> LaneResult:
    """Run one and read its report."""
    command = [sys.executable, "-m", "atleastonce.verifier", "run", "--json", "--quiet"]
    command += ["--lane", cell.lane, "--profile", cell.profile, "--store", str(store), *options]
    begun_s = time.monotonic()
    try:
        done = subprocess.run(command, capture_output=True, timeout=RUN_S_MAX, check=False)
    except subprocess.TimeoutExpired:
        told = [f"not ended after {RUN_S_MAX:g} s"]
        return LaneResult(lane=cell.lane, profile=cell.profile, status=Exit.HARNESS, reasons=told)
    run_s = round(time.monotonic() - begun_s, 1)
    try:
        report = msgspec.json.decode(done.stdout, type=_Report)
    except msgspec.MsgspecError:
        lines = done.stderr.decode("utf-8", "replace").splitlines() or ["no report"]
        return LaneResult(
            lane=cell.lane,
            profile=cell.profile,
            status=done.returncode,
            reasons=lines[-1:],
            run_s=run_s,
        )
    lane = report.strength.lane
    return LaneResult(
        lane=cell.lane,
        profile=cell.profile,
        status=done.returncode,
        took_s=lane.took_s,
        starts=lane.starts,
        completed=lane.completed,
        failed=lane.given_up,
        broken={name: rule.violations for name, rule in report.rules.items() if rule.violations},
        reasons=report.reasons,
        run=report.run,
        run_s=run_s,
    )


def run_cells(
    cells: Sequence[LaneCell], store: Path, jobs: int, options: Sequence[str]
) -> Iterator[LaneResult]:
    """Yield the results in order, from so many runs at a time."""
    with ThreadPoolExecutor(jobs) as pool:
        # A store of its own for each: a verifier heals what it finds open in its store.
        tasks = [
            pool.submit(run_cell, cell, store / f"{cell.lane}-{cell.profile}", options)
            for cell in cells
        ]
        try:
            for task in tasks:
                yield task.result()
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def list_lines(cells: Sequence[LaneCell]) -> Iterator[str]:
    """Yield which lanes exist in which profiles, and why some do not."""
    there = [cell for cell in cells if not cell.why_not]
    lanes = dict.fromkeys(cell.lane for cell in cells)
    profiles = dict.fromkeys(cell.profile for cell in cells)
    named = ", ".join(profiles)
    yield f"{len(lanes)} lanes x {len(profiles)} profiles ({named}): {len(there)} runs"
    width = max(map(len, lanes), default=0)
    for lane in lanes:
        yield f"  {lane:<{width}}  {LANES[lane].sentence}"
    for cell in cells:
        if cell.why_not:
            yield f"  {_NOT_RUN}: {cell.lane} {cell.profile}: {cell.why_not}"


def table_lines(results: Sequence[LaneResult]) -> Iterator[str]:
    """Yield the table of results and a line that counts them."""
    yield from table(_HEAD, [result.row() for result in results], "<<<>>>><")
    counts: dict[str, int] = {}
    for result in results:
        counts[result.word] = counts.get(result.word, 0) + 1
    told = ", ".join(f"{count} {word}" for word, count in counts.items())
    yield f"{len(results)} runs: {told}"


def worst_status(results: Sequence[LaneResult]) -> Exit:
    """Return the exit status of all: invalid, then failed, then unknown, then valid."""
    found = {result.status for result in results}
    if found - {int(status) for status in Exit}:
        found.add(Exit.HARNESS)
    return next((status for status in _WORST_FIRST if status in found), Exit.HARNESS)


def as_object(cells: Sequence[LaneCell], results: Sequence[LaneResult]) -> dict[str, Json]:
    """Return the one object that `--json` prints."""
    plain: list[Json] = [
        {**msgspec.to_builtins(result), "verdict": result.word} for result in results
    ]
    left_out: list[Json] = [msgspec.to_builtins(cell) for cell in cells if cell.why_not]
    return {"status": int(worst_status(results)), "lanes": plain, "not_run": left_out}
