"""Fixtures: a machine driven by commands and virtual time."""

from __future__ import annotations

import pytest

from .broker_driver import Driver


@pytest.fixture
def driver() -> Driver:
    return Driver()
