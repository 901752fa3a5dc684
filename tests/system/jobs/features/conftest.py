"""Fixtures: one real node for all tests here, and a bench with a queue of its own for each."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from .one_node import FeatureBench, OneNode


@pytest.fixture(scope="session")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OneNode]:
    made = OneNode(tmp_path_factory.mktemp("node"))
    yield made
    made.close()


@pytest.fixture
def on_node(tmp_path: Path, node: OneNode) -> Iterator[FeatureBench]:
    made = FeatureBench(tmp_path, node)
    yield made
    made.close()
