"""Tests draw the same in every run: see conftest.py."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st
from trio._core import _run as trio_run


def drawn() -> list[int]:
    seen: list[int] = []

    @settings(derandomize=True, max_examples=300)
    @given(st.integers())
    def draw(number: int) -> None:
        seen.append(number)

    draw()
    return seen


def test_examples_do_not_depend_on_what_else_was_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = drawn()
    path = tmp_path / "imported_late.py"
    path.write_text("NUMBERS = [" + ", ".join(str(7_919 * n) for n in range(1, 60)) + "]\n")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    monkeypatch.setitem(sys.modules, path.stem, importlib.util.module_from_spec(spec))
    is_search = settings.get_current_profile_name() == "search"
    assert drawn() == before or is_search, "other examples"


def order_of_ten() -> list[int]:
    order: list[int] = []

    async def note(number: int) -> None:
        order.append(number)

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            for number in range(10):
                nursery.start_soon(note, number)

    trio.run(main)
    return order


def test_tasks_wake_in_an_order_that_the_seed_of_trio_decides() -> None:
    def orders() -> list[list[int]]:
        trio_run._r.seed("as before a test")
        return [order_of_ten() for _ in range(8)]

    first = orders()
    assert orders() == first
    assert any(order != sorted(order) for order in first)
