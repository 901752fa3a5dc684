"""The end of a run, for people and for programs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec

from ..checkers.latency import heal_of, onset_of
from ..checkers.verdict import Json, Valid, Verdict, Violation
from ..histories.faults import Fault
from .errors import Exit
from .tables import COVERAGE, coverage_lines, table

_WITNESSES_SHOWN: Final = 3
_RECORDS_SHOWN: Final = 12
_WORDS: Final[Mapping[Valid, str]] = {True: "valid", False: "invalid", "unknown": "unknown"}
_COLOURS: Final[Mapping[Valid, str]] = {True: "green", False: "red", "unknown": "yellow"}
_KEPT: Final = ("run", "attempt", "pid", "node", "lease")
_TOLD: Final = ("outcome", "error", "cause", "signal", "exit", "marker", "result", "file")
_ASKED: Final = ("kind", "partition", "tries", "delay_s", "resend", "status", "offset")
_SHORT_ID: Final = 8
_BOUNDS: Final = "bounds_95"
_MEMORY: Final = "memory"
_THIRDS: Final = ("first", "last", "allowed")
_Memory = dict[str, dict[str, dict[str, float]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """Everything that is said about a finished run.

    Attributes:
        run: Its folder.
        workload: Name of the workload.
        nemesis: Names of the nemeses.
        seed: Its seed.
        bugs: Planted defects.
        origin_ns: CLOCK_MONOTONIC from which its times count.
        verdict: The judgement.
        faults: The faults that were opened.
    """

    run: Path
    workload: str
    nemesis: str
    seed: int
    bugs: Sequence[str]
    origin_ns: int
    verdict: Verdict
    faults: Sequence[Fault]

    @property
    def status(self) -> Exit:
        """What `verify` exits with."""
        if self.verdict.valid is True:
            return Exit.VALID
        return Exit.INVALID if self.verdict.valid is False else Exit.UNKNOWN

    def seconds(self, t_ns: int | None) -> float | None:
        """Turn a record's time into seconds since the run began."""
        return None if t_ns is None else round((t_ns - self.origin_ns) / 1e9, 3)


def as_json(outcome: Outcome) -> str:
    """Return the one object that `--json` prints."""
    verdict = outcome.verdict
    return msgspec.json.encode(
        {
            "valid": verdict.valid,
            "rules": verdict.rules,
            "faults": [_fault_object(outcome, fault) for fault in outcome.faults],
            "strength": verdict.strength,
            "violations": verdict.violations,
            "in_doubt": verdict.in_doubt,
            "reasons": verdict.reasons,
            "run": str(outcome.run),
            "workload": outcome.workload,
            "nemesis": outcome.nemesis,
            "bugs": list(outcome.bugs),
            "seed": outcome.seed,
        }
    ).decode()


def _fault_object(outcome: Outcome, fault: Fault) -> dict[str, Json]:
    return {
        "kind": fault.kind,
        "target": fault.target,
        "opened_s": outcome.seconds(fault.opened_ns),
        "healed_s": outcome.seconds(fault.healed_ns),
        "bit": fault.bit,
        "onset_ms": onset_of(fault),
        "heal_ms": heal_of(fault),
    }


def headline(outcome: Outcome) -> tuple[str, str]:
    """Return the verdict's line and its colour."""
    valid = outcome.verdict.valid
    bugs = f", with planted {', '.join(outcome.bugs)}" if outcome.bugs else ""
    told = f"{outcome.workload} under {outcome.nemesis}, seed {outcome.seed}{bugs}"
    return f"{_WORDS[valid].upper()}  {told}", _COLOURS[valid]


def quiet_line(outcome: Outcome) -> str:
    """Return all that `--quiet` prints."""
    return f"{_WORDS[outcome.verdict.valid]}  {outcome.run}"


def report_lines(outcome: Outcome) -> Iterator[str]:
    """Yield the report below its headline, in plain ASCII as far as the records are."""
    verdict = outcome.verdict
    for reason in verdict.reasons:
        yield f"  because: {reason}" if verdict.valid == "unknown" else f"  note: {reason}"
    yield ""
    rows = [
        (name, _WORDS[rule.valid], str(rule.violations), str(rule.explained))
        for name, rule in verdict.rules.items()
    ]
    yield from table(("rule", "verdict", "violations", "explained"), rows, "<<>>")
    if outcome.faults:
        yield ""
        yield from _fault_lines(outcome)
    yield from coverage_lines(verdict.strength)
    memory = verdict.strength.get(_MEMORY)
    if memory:
        yield ""
        yield from _memory_lines(msgspec.convert(memory, _Memory))
    yield ""
    yield "strength of evidence"
    judged = "jobs" if outcome.workload in ("jobs", "lane", "soak") else "what a rule judged"
    tabled = (_MEMORY, *COVERAGE)
    figures = {key: value for key, value in verdict.strength.items() if key not in tabled}
    yield from _strength_lines(figures, judged)
    yield from _violation_lines(outcome)
    yield ""
    yield f"run       {outcome.run}"
    yield f"re-judge  verify check {outcome.run}"


def _fault_lines(outcome: Outcome) -> Iterator[str]:
    def moment(t_ns: int | None) -> str:
        seconds = outcome.seconds(t_ns)
        return "never" if seconds is None else f"{seconds:.1f} s"

    rows = [
        (
            *(f.kind, f.target, moment(f.opened_ns), moment(f.healed_ns)),
            *("yes" if f.bit else "no", _ms(onset_of(f)), _ms(heal_of(f))),
        )
        for f in outcome.faults
    ]
    head = ("fault", "target", "opened", "healed", "bit", "onset", "heal")
    yield from table(head, rows, "<<>><>>")


def _ms(value: float | None) -> str:
    return "" if value is None else f"{value:.1f} ms"


def _memory_lines(memory: _Memory) -> Iterator[str]:
    """Yield the medians of each kind of process in the first and the last third, and the bound."""
    rows = [
        (kind, measure.upper(), *(f"{thirds[name]:.1f}" for name in _THIRDS))
        for kind, measures in memory.items()
        for measure, thirds in measures.items()
    ]
    yield from table(("memory, MiB", "", "first third", "last third", "allowed"), rows, "<<>>>")


def _strength_lines(strength: Mapping[str, Json], judged: str, indent: str = "  ") -> Iterator[str]:
    """Yield one line a figure; nested objects one step further in."""
    plain = [_label(key) for key, value in strength.items() if not _is_nested(value)]
    width = max(map(len, plain), default=0)
    for key, value in strength.items():
        if key == _BOUNDS and isinstance(value, dict):
            yield f"{indent}{_label(key):<{width}}  {_bound(value, judged)}"
        elif isinstance(value, dict) and _is_nested(value):
            yield f"{indent}{_words(key)}"
            yield from _strength_lines(value, judged, indent + "  ")
        else:
            yield f"{indent}{_words(key):<{width}}  {_figure(value)}"


def _label(key: str) -> str:
    return "95 % bound" if key == _BOUNDS else _words(key)


def _is_nested(value: Json) -> bool:
    return isinstance(value, dict) and any(isinstance(inner, dict) for inner in value.values())


def _bound(bounds: Mapping[str, Json], judged: str) -> str:
    """Say the widest of the upper bounds on the rates of what was never seen."""
    rates = [rate for rate in bounds.values() if isinstance(rate, float)]
    return (
        f"at most {max(rates):.2%} of {judged}, for each rule without a violation"
        if rates
        else "none"
    )


def _words(key: str) -> str:
    return key.replace("_", " ")


def _figure(value: Json) -> str:
    if isinstance(value, dict):
        pairs = [f"{_words(key)} {_figure(inner)}" for key, inner in value.items()]
        return "; ".join(pairs) or "none"
    if isinstance(value, list):
        return ", ".join(_figure(inner) for inner in value) or "none"
    if isinstance(value, float):
        return f"{value:.4g}"
    return "none" if value is None else str(value)


def _violation_lines(outcome: Outcome) -> Iterator[str]:
    """Yield the first witnesses of each rule, violations before what is in doubt."""
    verdict = outcome.verdict
    for rule, result in verdict.rules.items():
        found = [violation for violation in verdict.violations if violation.rule == rule]
        yield from _witness_lines(outcome, f"violation of {rule}", rule, found, result.violations)
    for rule, result in verdict.rules.items():
        found = [violation for violation in verdict.in_doubt if violation.rule == rule]
        yield from _witness_lines(outcome, f"in doubt: {rule}", rule, found, result.in_doubt)


def _witness_lines(
    outcome: Outcome, what: str, rule: str, witnesses: Sequence[Violation], count: int
) -> Iterator[str]:
    """Yield the first witnesses, and count the rest."""
    for witness in witnesses[:_WITNESSES_SHOWN]:
        yield ""
        job = f"job {witness.job}: " if witness.job else ""
        yield f"{what}: {job}{witness.sentence}"
        for record in witness.records[:_RECORDS_SHOWN]:
            yield f"    {_record_line(outcome, record)}"
        if len(witness.records) > _RECORDS_SHOWN:
            yield f"    ... and {len(witness.records) - _RECORDS_SHOWN} more records"
        for fault in witness.faults:
            yield f"    {_window_line(outcome, fault)}"
    rest = count - min(len(witnesses), _WITNESSES_SHOWN)
    if rest > 0:
        yield f"  ... and {rest} more of {rule}; verdict.json holds {len(witnesses)} witnesses"


def _record_line(outcome: Outcome, record: Mapping[str, Json]) -> str:
    """Tell one record of a witness: when, what, and the fields that matter for it."""
    t_ns = record.get("t_ns", record.get("time_ns"))
    when = f"{outcome.seconds(t_ns):9.3f} s" if isinstance(t_ns, int) else " " * 11
    parts = [when, _event(record)]
    value = record.get("value")
    asked = value if isinstance(value, dict) else {}
    for source, keys in ((record, _KEPT), (asked, _ASKED), (record, _TOLD)):
        for key in keys:
            found = source.get(key)
            if found is not None and found is not False and (key, found) != ("delay_s", 0):
                shown = _figure(found)
                parts.append(f"{_words(key)} {shown[-_SHORT_ID:] if key == 'lease' else shown}")
    return "  ".join(parts)


def _event(record: Mapping[str, Json]) -> str:
    if "e" in record:
        return str(record["e"])
    if "f" in record:
        return f"{record['f']} {record['type']}"
    return "hand-back" if "unstarted" in record else "death"


def _window_line(outcome: Outcome, fault: Mapping[str, Json]) -> str:
    """Tell one fault window of a witness."""
    from_ns, until_ns = fault.get("from_ns"), fault.get("until_ns")
    span = ""
    if isinstance(from_ns, int) and isinstance(until_ns, int):
        span = f", window {outcome.seconds(from_ns)} s to {outcome.seconds(until_ns)} s"
    return f"fault {fault.get('kind')} on {fault.get('target')}{span}"
