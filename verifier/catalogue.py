"""What can be chosen: workloads, nemeses, rules, bugs and settings, a sentence each."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

import msgspec

from ..checkers.contract import RULES
from ..histories.ops import Json
from ..nemesis.fields import default_of, fields_of, in_words
from ..nemesis.packages import PACKAGES
from ..nemesis.registry import NEMESES, NemesisSpec
from ..system.bugs import BUGS
from ..workloads.lanes.registry import LANES
from ..workloads.registry import WORKLOADS
from .breakdowns import INVARIANT, INVARIANT_SENTENCE
from .settings import REGISTRY

Entry = Mapping[str, Json]
Catalogue = Mapping[str, Mapping[str, Entry]]

_SECTIONS: Final = ("workloads", "nemeses", "packages", "lanes", "rules", "bugs", "settings")


def catalogue() -> Catalogue:
    """Collect everything, by section and name."""
    return {
        "workloads": {
            name: {"sentence": spec.sentence, "rate": spec.rate, "rules": dict(spec.rules)}
            for name, spec in WORKLOADS.items()
        },
        "nemeses": {name: _nemesis(spec) for name, spec in NEMESES.items()},
        "packages": {
            name: {"sentence": "one of " + ", ".join(names), "nemeses": _listed(names)}
            for name, names in PACKAGES.items()
        },
        "lanes": {
            name: {
                "sentence": lane.sentence,
                "scale": lane.scale,
                "fault": None if lane.fault is None else lane.fault.kind,
            }
            for name, lane in LANES.items()
        },
        "rules": {
            name: {"sentence": sentence}
            for name, sentence in {**RULES, INVARIANT: INVARIANT_SENTENCE}.items()
        },
        "bugs": {
            name: {
                "sentence": bug.sentence,
                "rule": bug.rule,
                "nemesis": bug.nemesis or None,
                "workload": bug.workload,
                "settings": [f"{key}={value}" for key, value in bug.settings],
            }
            for name, bug in BUGS.items()
        },
        "settings": {
            name: {
                "sentence": setting.sentence,
                "group": setting.group,
                "allowed": setting.allowed,
                "default": setting.default,
            }
            for name, setting in REGISTRY.items()
        },
    }


def _listed(names: Iterable[str]) -> list[Json]:
    return list(names)


def _nemesis(spec: NemesisSpec) -> Entry:
    targets = dict.fromkeys((spec.target, *spec.targets, *spec.drawn)) if spec.target else {}
    options: dict[str, Json] = {
        name: {"allowed": in_words(field.type), "default": default_of(field)}
        for name, field in fields_of(spec.options).items()
    }
    return {
        "sentence": spec.sentence,
        "family": spec.family or None,
        "targets": _listed(targets),
        "named": spec.named,
        "options": options,
        "needs": _listed(sorted(spec.needs)),
    }


def encode(found: Catalogue) -> str:
    """Return the catalogue as one JSON object."""
    return msgspec.json.encode(found).decode()


def catalogue_text(found: Catalogue) -> str:
    """Return the catalogue for people, one line an entry."""
    return "\n".join(_lines(found))


def _lines(found: Catalogue) -> Iterator[str]:
    for section in _SECTIONS:
        entries = found[section]
        width = max(len(name) for name in entries)
        yield f"{section}" + (" (--set KEY=VALUE)" if section == "settings" else "")
        for name, entry in entries.items():
            yield f"  {name:<{width}}  {entry['sentence']}{_extra(section, entry)}"
        yield ""
        if section == "rules":
            yield from _workload_rules(found["workloads"])


def _workload_rules(workloads: Mapping[str, Entry]) -> Iterator[str]:
    """Yield the rules of each workload that has its own."""
    for workload, entry in workloads.items():
        rules = entry["rules"]
        assert isinstance(rules, dict), f"workload {workload} without rules"
        if WORKLOADS[workload].jobs is not None:
            # They are the rules above, and what a lane expects beside them.
            rules = {name: sentence for name, sentence in rules.items() if name not in RULES}
        if not rules:
            continue
        width = max(map(len, rules))
        yield f"rules of the workload {workload}"
        yield from (f"  {name:<{width}}  {sentence}" for name, sentence in rules.items())
        yield ""


def _told_of(entry: Entry) -> str:
    """Say a nemesis's family, targets, options and needs in a few words."""
    targets, options, needs = entry["targets"], entry["options"], entry["needs"]
    assert isinstance(targets, list), entry
    assert isinstance(options, dict), entry
    assert isinstance(needs, list), entry
    parts = [str(entry["family"]), ", ".join(str(target) for target in targets)]
    if options:
        parts.append(f"options {', '.join(options)}")
    if needs:
        parts.append(f"needs {', '.join(str(need) for need in needs)}")
    return "; ".join(parts)


def _extra(section: str, entry: Entry) -> str:
    if section == "nemeses" and entry["family"]:
        return f" [{_told_of(entry)}]"
    if section == "bugs":
        where = f"{entry['workload']} under {entry['nemesis']}"
        return f" [{entry['rule']}; {where if entry['nemesis'] else 'simulator only'}]"
    if section == "settings":
        default = str(entry["default"]).lower()
        return f" [{entry['group']}; {entry['allowed']}; default {default}]"
    return ""
