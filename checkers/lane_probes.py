"""The rule of a failure lane about what a supervisor says of itself while its broker is silent."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from .findings import Finding, seconds
from .lane_contract import ProbesExpected
from .windows import NS
from .world import World

PROBE: Final = "probe"
"""Operation whose ok value is what a supervisor said of itself; see `Probe`."""


class Probe(msgspec.Struct, frozen=True):
    """One answer.

    Attributes:
        live: Whether it is alive.
        ready: Whether it takes jobs.
        codes: Why not.
        pids: Its workers.
    """

    live: bool
    ready: bool
    codes: tuple[str, ...] = ()
    pids: tuple[int, ...] = ()


def read_probes(world: World) -> list[tuple[int, Probe]]:
    """Return all answers with their times, in order."""
    return [
        (op.time_ns, msgspec.convert(op.value, Probe))
        for op in world.run.ops
        if op.f == PROBE and op.type == "ok"
    ]


def judge_probes(world: World, expected: ProbesExpected | None) -> Iterator[Finding]:
    """Yield what a supervisor said of itself otherwise than it should."""
    probes = read_probes(world)
    if expected is None or not probes or not world.windows.all:
        return
    window = world.windows.all[0]
    dead = [at for at, probe in probes if not probe.live]
    if dead:
        yield _finding("it was not alive by its own account", dead[0], dead[-1])
    workers = {probe.pids for _, probe in probes}
    if len(workers) > 1:
        text = f"its workers changed: {' then '.join(str(list(pids)) for pids in sorted(workers))}"
        yield _finding(text, probes[0][0], probes[-1][0])
    due_ns = window.from_ns + round(expected.after_s * NS)
    during = [entry for entry in probes if due_ns <= entry[0] < window.healed_ns]
    yield from _judge_silence(expected, during)
    again_ns = window.healed_ns + round(expected.again_s * NS)
    unready = [at for at, probe in probes if at > again_ns and not probe.ready]
    if unready:
        text = f"it was still not ready {seconds(unready[0] - window.healed_ns)} after the fault"
        yield _finding(text, window.healed_ns, unready[-1])


def _judge_silence(
    expected: ProbesExpected, during: Sequence[tuple[int, Probe]]
) -> Iterator[Finding]:
    wrong = [at for at, probe in during if probe.ready or expected.code not in probe.codes]
    if wrong:
        text = (
            f"{len(wrong)} of {len(during)} answers from {expected.after_s:g} s after the fault "
            f"began do not give {expected.code!r} as the reason for not being ready"
        )
        yield _finding(text, wrong[0], wrong[-1])


def _finding(text: str, from_ns: int, until_ns: int) -> Finding:
    return Finding(
        "lane-probe", None, f"the supervisor was asked about itself: {text}", from_ns, until_ns
    )
