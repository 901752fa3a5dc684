"""The house rules that a machine can check: each failure reads `file:line rule: remedy`."""

from __future__ import annotations

import ast
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("verifier", "system", "workloads", "nemesis", "histories", "checkers")
FILE_LINES_MAX = 400
FUNCTION_LINES_MAX = 70

LEFTOVERS = re.compile(r"\b(TODO|FIXME|XXX|NotImplementedError)\b")
SPEAKS_OF_ITS_MAKING = re.compile(r"\bissue #?[0-9]+\b|\bsub-?agent|/work/|/root/", re.IGNORECASE)
REGISTRY_HOST = re.compile(
    r"(pypi|pythonhosted|npmjs|crates|golang|maven|debian)\.(org|com|io)", re.IGNORECASE
)
VAGUE_NAMES = re.compile(r"(^|_)(util|utils|helper|helpers|manager|misc|common)(_|$)")
CAN_NEVER_FAIL = re.compile(r"pytest\.(mark\.)?(skip|xfail)|unittest\.skip")


def tracked_files() -> list[Path]:
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.splitlines()
    return [ROOT / name for name in listed if not name.startswith("src/")]


def python_files(*folders: str) -> list[Path]:
    return sorted(
        path
        for path in tracked_files()
        if path.suffix == ".py" and path.is_file() and path.relative_to(ROOT).parts[0] in folders
    )


def findings(paths: list[Path], pattern: re.Pattern[str], rule: str) -> Iterator[str]:
    for path in paths:
        if path == Path(__file__).resolve():
            continue
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
            if pattern.search(line):
                yield f"{path.relative_to(ROOT)}:{number} {rule}: {line.strip()[:80]}"


def assert_none(found: Iterator[str]) -> None:
    listed = list(found)
    assert not listed, "\n".join(listed)


def test_no_file_outgrows_its_idea() -> None:
    assert_none(
        f"{path.relative_to(ROOT)}: {lines} lines, at most {FILE_LINES_MAX}: split it by idea"
        for path in python_files(*PACKAGES, "tests", "benchmarks")
        if (lines := len(path.read_text(encoding="utf-8").splitlines())) > FILE_LINES_MAX
    )


def test_no_function_outgrows_a_screen() -> None:
    def long_functions() -> Iterator[str]:
        for path in python_files(*PACKAGES, "tests", "benchmarks"):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                    lines = (node.end_lineno or node.lineno) - node.lineno + 1
                    if lines > FUNCTION_LINES_MAX:
                        yield (
                            f"{path.relative_to(ROOT)}:{node.lineno} {node.name}: {lines} lines, "
                            f"at most {FUNCTION_LINES_MAX}"
                        )

    assert_none(long_functions())


def test_nothing_is_left_for_later() -> None:
    assert_none(
        findings(python_files(*PACKAGES, "tests", "benchmarks"), LEFTOVERS, "finish it or drop it")
    )


def test_modules_are_named_after_one_idea() -> None:
    assert_none(
        f"{path.relative_to(ROOT)}: name it after what it holds"
        for path in python_files(*PACKAGES)
        if VAGUE_NAMES.search(path.stem)
    )


def test_no_test_sleeps() -> None:
    assert_none(
        findings(
            python_files("tests"),
            re.compile(r"\btime\.sleep\("),
            "use virtual time, or wait on a condition with a deadline",
        )
    )


def test_no_test_is_switched_off() -> None:
    assert_none(findings(python_files("tests"), CAN_NEVER_FAIL, "a skipped check is no check"))


def test_nothing_is_ever_pickled() -> None:
    assert_none(
        findings(
            python_files(*PACKAGES),
            re.compile(r"^\s*(import|from)\s+(pickle|marshal|shelve)\b"),
            "JSON payloads only",
        )
    )


def test_the_project_speaks_of_itself_alone() -> None:
    texts = [
        path
        for path in tracked_files()
        if path.is_file() and path.suffix in {".py", ".md", ".toml", ".yml", ".txt", ".lock", ""}
    ]
    assert_none(findings(texts, SPEAKS_OF_ITS_MAKING, "say it without naming how it was made"))
    assert_none(findings(texts, REGISTRY_HOST, "name no registry's host"))


@pytest.mark.parametrize("package", PACKAGES)
def test_every_package_says_what_it_is_for(package: str) -> None:
    for path in python_files(package):
        if path.name == "__init__.py":
            assert ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))), path
