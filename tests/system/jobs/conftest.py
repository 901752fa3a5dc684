"""Fixtures: a broker, and workers that never outlive a test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from .machine_broker import MachineBroker
from .worker_process import Bench


@pytest.fixture
def broker() -> Iterator[MachineBroker]:
    made = MachineBroker()
    yield made
    made.close()


@pytest.fixture
def bench(tmp_path: Path, broker: MachineBroker) -> Iterator[Bench]:
    made = Bench(tmp_path, broker)
    yield made
    made.close()
