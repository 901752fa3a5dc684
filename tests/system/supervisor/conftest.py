"""Fixtures: a scripted broker, and supervisors as real processes that never outlive a test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from .one_node import one_node
from .pooled import Pooled
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


@pytest.fixture
def pooled(tmp_path: Path) -> Iterator[Pooled]:
    """A supervisor of pools that is not started yet, on a real node."""
    with one_node(tmp_path) as port:
        made = Pooled(tmp_path, port)
        yield made
        made.end()
