"""The tables of job features name tests that exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
FEATURES = Path(__file__).resolve().parent / "features"
NAMES = re.compile(r"`([a-z0-9_]+)`")


def rows(page: str) -> list[list[str]]:
    """Cells of the rows of a page's table."""
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    lines = [line for line in text.splitlines() if line.startswith("| ")]
    return [line.strip("|").replace("\\|", "/").split("|") for line in lines[1:]]


@pytest.mark.parametrize(
    ("page", "folder"), [("job-features.md", FEATURES), ("job-features-flows.md", FEATURES.parent)]
)
def test_every_feature_names_the_tests_that_show_it(page: str, folder: Path) -> None:
    assert len(rows(page)) >= 15
    for cells in rows(page):
        assert len(cells) == 4, f"a row of {len(cells)} cells: {cells[0]}"
        area, *tests = NAMES.findall(cells[3])
        assert tests, f"no test is named for {cells[0]}"
        source = (folder / f"test_feature_{area}.py").read_text(encoding="utf-8")
        missing = [name for name in tests if f"def test_{name}(" not in source]
        assert not missing, f"{area} has no tests {missing}"
