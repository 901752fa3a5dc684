"""Histories of operations for tests: given by their times, in any order."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from atleastonce.checkers.verdict import Verdict
from atleastonce.histories.faults import FaultEvent, group_faults
from atleastonce.histories.folder import RunRecords
from atleastonce.histories.history_reader import read_history
from atleastonce.histories.interning import Names
from atleastonce.histories.ops import Json, Op, OpType, find_malformed
from atleastonce.histories.scenario import Scenario
from atleastonce.histories.table import empty_table

_ORIGIN_NS = 1_000_000_000_000


def at(seconds: float) -> int:
    """The CLOCK_MONOTONIC of a second of a history."""
    return _ORIGIN_NS + round(seconds * 1e9)


@dataclass
class OpHistory:
    """Collects operations; `run` puts them in order."""

    plan: list[dict[str, Json]] = field(default_factory=list)
    faults: list[FaultEvent] = field(default_factory=list)
    _events: list[tuple[float, int, OpType, str | int, str, Json, str | None]] = field(
        default_factory=list
    )
    _processes: int = 0

    def op(
        self,
        f: str,
        from_s: float,
        until_s: float | None,
        asked: object = None,
        answer: object = None,
        type_: OpType = "ok",
        node: str | None = None,
        process: str | int | None = None,
    ) -> None:
        """Add an operation, of a new process if none is named; without `until_s` it never ends."""
        if process is None:
            process, self._processes = self._processes, self._processes + 1
        order = len(self._events)
        value = msgspec.to_builtins(asked)
        self._events.append((from_s, order, "invoke", process, f, value, node))
        if until_s is not None:
            ended = msgspec.to_builtins(answer)
            self._events.append((until_s, order + 1, type_, process, f, ended, node))

    def run(self) -> RunRecords:
        """Put everything in order of time."""
        ops = [
            Op(
                index=index,
                process=process,
                type=type_,
                f=f,
                value=value,
                time_ns=at(time_s),
                node=node,
            )
            for index, (time_s, _, type_, process, f, value, node) in enumerate(
                sorted(self._events, key=lambda event: event[:2])
            )
        ]
        damage = find_malformed(ops)
        assert damage is None, damage
        scenario = Scenario(
            workload="queue",
            nemesis="none",
            seed=1,
            origin_ns=_ORIGIN_NS,
            host="here",
            boot="boot",
            plan=self.plan,
        )
        return RunRecords(
            scenario=scenario,
            attempts=empty_table(),
            dispatches=read_history(Path("/nonexistent/history.jsonl"), Names()).dispatches,
            ops=tuple(ops),
            deaths=(),
            faults=tuple(group_faults(self.faults)),
        )


def broken_rules(verdict: Verdict) -> set[str]:
    """The rules that a verdict finds broken; each of them must have a witness."""
    names = {name for name, result in verdict.rules.items() if result.violations}
    assert {violation.rule for violation in verdict.violations} == names
    assert all(violation.sentence and violation.records for violation in verdict.violations)
    return names
