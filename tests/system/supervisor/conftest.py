"""Fixtures: a scripted broker, and supervisors as real processes that never outlive a test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from .scripted_broker import ScriptedBroker
from .supervised import Supervised


@pytest.fixture
def broker() -> Iterator[ScriptedBroker]:
    scripted = ScriptedBroker()
    yield scripted
    scripted.close()


@pytest.fixture
def supervised(tmp_path: Path, broker: ScriptedBroker) -> Iterator[Supervised]:
    """A supervisor that is not started yet, on the scripted broker."""
    made = Supervised(tmp_path, broker.port)
    yield made
    made.end()
