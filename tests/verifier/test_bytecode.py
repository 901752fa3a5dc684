"""Where the processes of a run keep compiled code."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from atleastonce.verifier.bytecode import PREFIX, bytecode_variables
from atleastonce.verifier.child_variables import SUPERVISOR_MODULE, variables_of
from atleastonce.verifier.store import RunPaths

TOLD = {"PYTHONDONTWRITEBYTECODE": "1", "HOME": "/home/a"}


@pytest.mark.parametrize(
    ("environ", "prefix"),
    [
        (TOLD, "/home/a/.cache/atleastonce/bytecode"),
        (TOLD | {"XDG_CACHE_HOME": "/var/c"}, "/var/c/atleastonce/bytecode"),
        ({"HOME": "/home/a"}, None),
        ({"HOME": "/home/a", "PYTHONDONTWRITEBYTECODE": ""}, None),
        (TOLD | {"PYTHONPYCACHEPREFIX": "/elsewhere"}, None),
        ({"PYTHONDONTWRITEBYTECODE": "1"}, None),
        (TOLD | {"XDG_CACHE_HOME": "relative"}, None),
    ],
)
def test_the_cache_is_used_only_where_python_would_keep_nothing(
    environ: dict[str, str], prefix: str | None
) -> None:
    wanted = (
        {} if prefix is None else {"PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": prefix}
    )
    assert bytecode_variables(environ) == wanted


def test_python_keeps_compiled_code_there_and_nothing_beside_the_source(tmp_path: Path) -> None:
    source = tmp_path / "code" / "module_of_the_test.py"
    source.parent.mkdir()
    source.write_text("VALUE = 1\n", encoding="ascii")
    environ = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1", "XDG_CACHE_HOME": str(tmp_path / "c")}
    environ.pop("PYTHONPYCACHEPREFIX", None)
    environ |= bytecode_variables(environ) | {"PYTHONPATH": str(source.parent)}
    subprocess.run((sys.executable, "-c", "import module_of_the_test"), env=environ, check=True)
    kept = tmp_path / "c" / "atleastonce" / "bytecode"
    assert [path.name.partition(".")[0] for path in kept.rglob("module_of*.pyc")] == [source.stem]
    assert list(source.parent.iterdir()) == [source]


def test_nodes_keep_compiled_code_and_jobs_have_the_callers_environment(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name, value in TOLD.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv(PREFIX, raising=False)
    run = RunPaths(tmp_path)
    assert PREFIX in variables_of(run, "atleastonce.system.node", "n1", 1)
    assert PREFIX not in variables_of(run, SUPERVISOR_MODULE, "supervisor", 1)
