"""Fixtures: clusters of real nodes that never outlive a test."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from .node_cluster import Cluster

MakeCluster = Callable[..., Cluster]


@pytest.fixture
def make_cluster(tmp_path: Path) -> Iterator[MakeCluster]:
    """Make clusters of a size and with settings; the caller starts them."""
    made: list[Cluster] = []

    def make(size: int, **settings: object) -> Cluster:
        folder = tmp_path / f"cluster{len(made)}"
        folder.mkdir()
        made.append(Cluster(folder, size, **settings))
        return made[-1]

    yield make
    for cluster in made:
        cluster.end()
