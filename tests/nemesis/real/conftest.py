"""Worlds of real processes that never outlive a test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from .dummy_world import STUBBORN, DummyWorld


@pytest.fixture
def world() -> Iterator[DummyWorld]:
    made = DummyWorld()
    yield made
    made.end()


@pytest.fixture
def stubborn_world() -> Iterator[DummyWorld]:
    """Its nodes ignore SIGTERM."""
    made = DummyWorld(STUBBORN)
    yield made
    made.end()
