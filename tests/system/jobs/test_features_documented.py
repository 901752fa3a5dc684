"""The table of job features names tests that exist."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
FEATURES = Path(__file__).resolve().parent / "features"
NAMES = re.compile(r"`([a-z0-9_]+)`")


def rows() -> list[list[str]]:
    """Cells of the rows of the first table."""
    text = (ROOT / "docs" / "job-features.md").read_text(encoding="utf-8")
    section = text.split("\n## ")[1]
    lines = [line for line in section.splitlines() if line.startswith("| ")]
    return [line.strip("|").replace("\\|", "/").split("|") for line in lines[1:]]


def test_every_feature_names_the_tests_that_show_it() -> None:
    assert len(rows()) >= 15
    for cells in rows():
        assert len(cells) == 4, f"a row of {len(cells)} cells: {cells[0]}"
        area, *tests = NAMES.findall(cells[3])
        assert tests, f"no test is named for {cells[0]}"
        source = (FEATURES / f"test_feature_{area}.py").read_text(encoding="utf-8")
        missing = [name for name in tests if f"def test_{name}(" not in source]
        assert not missing, f"{area} has no tests {missing}"
