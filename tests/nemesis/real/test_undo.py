"""What is no process is undone from the ledger too: in its phase, once, and not without a word."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from atleastonce.histories.ops import Json
from atleastonce.nemesis.healing import heal, open_ledgers
from atleastonce.nemesis.ledger import Ledger, read_ledger
from atleastonce.nemesis.undo import UNDO, Phase, UndoError, Undoing, put_back


@pytest.fixture
def ledger_path(tmp_path: Path) -> Path:
    folder = tmp_path / "jobs-none" / "20260101T000000Z"
    folder.mkdir(parents=True)
    return folder / "ledger.jsonl"


def orphan(path: Path) -> None:
    """Make the ledger's owner one that is no more."""
    lines = [json.loads(line) for line in path.read_bytes().splitlines()]
    lines[0] |= {"start_time": "1"}
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="ascii")


def noting(phase: Phase, said: list[str]) -> Undoing:
    def undo(thing: dict[str, Json]) -> list[str]:
        said.append(f"{phase.name} {thing['n']}")
        return [f"undid {thing['n']}"]

    return Undoing(phase, undo)


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    found: list[str] = []
    for phase in Phase:
        monkeypatch.setitem(UNDO, phase.name.lower(), noting(phase, found))
    return found


def test_things_are_undone_phase_by_phase_and_the_newest_first(
    ledger_path: Path, said: list[str]
) -> None:
    ledger = Ledger(ledger_path)
    ledger.thing_made("world", {"remains": {"n": 1}})
    ledger.fault_opened("f1", "x", (), {"limits": {"n": 2}, "gates": [{"n": 3}, {"n": 4}]})
    ledger.fault_owes("f1", {"rules": {"n": 5}, "remains": {"n": 6}})
    orphan(ledger_path)
    assert heal(ledger_path) == [
        "undid 4", "undid 3", "undid 5", "undid 2", "undid 6", "undid 1", "closed f1",
    ]  # fmt: skip
    assert said == ["GATES 4", "GATES 3", "RULES 5", "LIMITS 2", "REMAINS 6", "REMAINS 1"]
    assert read_ledger(ledger_path).closed


def test_what_was_healed_or_taken_away_is_left_alone(ledger_path: Path, said: list[str]) -> None:
    ledger = Ledger(ledger_path)
    ledger.thing_made("world", {"remains": {"n": 1}})
    ledger.fault_opened("f1", "x", (), {"limits": {"n": 2}})
    ledger.fault_owes("f1", {"rules": {"n": 3}})
    ledger.fault_healed("f1")
    ledger.thing_gone("world")
    orphan(ledger_path)
    assert heal(ledger_path) == []
    assert said == []


def refusing(error: Exception) -> Callable[[dict[str, Json]], list[str]]:
    def undo(thing: dict[str, Json]) -> list[str]:
        raise error

    return undo


@pytest.mark.parametrize("error", [UndoError("it is busy"), OSError("it is busy")])
def test_what_cannot_be_undone_is_said_and_keeps_the_ledger_open(
    error: Exception, ledger_path: Path, said: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(UNDO, "stuck", Undoing(Phase.RULES, refusing(error)))
    ledger = Ledger(ledger_path)
    ledger.fault_opened("f1", "x", (), {"stuck": {"n": 1}, "remains": {"n": 2}})
    orphan(ledger_path)
    assert heal(ledger_path)[:2] == ["could not undo stuck: it is busy", "undid 2"]
    assert open_ledgers(ledger_path.parent.parent.parent) == [ledger_path]


def test_a_thing_that_this_version_does_not_know_is_said(ledger_path: Path) -> None:
    Ledger(ledger_path).fault_opened("f1", "x", (), {"portal": {}})
    orphan(ledger_path)
    assert heal(ledger_path)[0].startswith("cannot undo 'portal'")
    assert not read_ledger(ledger_path).closed


def test_bytes_are_put_back_if_they_are_still_the_faults(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"abXYef")
    thing: dict[str, Json] = {
        "path": str(file), "offset": 2, "before": b"cd".hex(), "after": b"XY".hex(),
    }  # fmt: skip
    assert put_back(thing) == [f"gave {file} its 2 bytes at 2 back"]
    assert file.read_bytes() == b"abcdef"
    assert put_back(thing) == []
    file.unlink()
    assert put_back(thing) == []


def test_an_interruption_takes_effect_only_when_all_is_undone(
    ledger_path: Path, said: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def undo(thing: dict[str, Json]) -> list[str]:
        os.kill(os.getpid(), signal.SIGINT)
        return ["undid the first"]

    monkeypatch.setitem(UNDO, "first", Undoing(Phase.GATES, undo))
    ledger = Ledger(ledger_path)
    ledger.fault_opened("f1", "x", (), {"first": {}, "remains": {"n": 2}})
    orphan(ledger_path)
    # Whoever starts the tests in the background may have them ignore it.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            heal(ledger_path)
    finally:
        signal.signal(signal.SIGINT, before)
    assert said == ["REMAINS 2"]
    assert read_ledger(ledger_path).closed
