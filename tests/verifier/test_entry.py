"""The very beginning of the command."""

from __future__ import annotations

import builtins
from collections.abc import Callable, Mapping, Sequence

import pytest

from atleastonce.verifier import entry
from atleastonce.verifier.errors import Exit

Import = Callable[..., object]


def _interrupting(real: Import) -> Import:
    def imported(
        name: str,
        scope: Mapping[str, object] | None = None,
        local: Mapping[str, object] | None = None,
        names: Sequence[str] | None = (),
        level: int = 0,
    ) -> object:
        if name == "cli" and level == 1:
            raise KeyboardInterrupt
        return real(name, scope, local, names, level)

    return imported


def test_interrupt_during_the_imports_is_one_line_and_unknown(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(builtins, "__import__", _interrupting(builtins.__import__))

    with pytest.raises(SystemExit) as exit_:
        entry.main()

    assert exit_.value.code == Exit.UNKNOWN
    assert capsys.readouterr().err == "verify: interrupted\n"


def test_entry_s_status_is_the_one_of_unknown() -> None:
    assert Exit.UNKNOWN == entry._UNKNOWN
