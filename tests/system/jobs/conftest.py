"""Fixtures: a broker, and workers that never outlive a test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from atleastonce.system.jobs.failed import FailedStore

from .machine_broker import MachineBroker
from .one_node import OneNode, Site
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


@pytest.fixture(autouse=True)
def closed_stores(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Close every failed-job store that a test looked into."""
    made: list[FailedStore] = []
    real = FailedStore.__init__

    def remembered(store: FailedStore, path: str | Path) -> None:
        real(store, path)
        made.append(store)

    monkeypatch.setattr(FailedStore, "__init__", remembered)
    yield
    for store in made:
        store.close()


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OneNode]:
    """A real node, shared by the tests of a file: each has queues of its own."""
    made = OneNode(tmp_path_factory.mktemp("node"))
    yield made
    made.close()


@pytest.fixture
def site(tmp_path: Path, node: OneNode) -> Iterator[Site]:
    made = Site(node, tmp_path)
    yield made
    made.close()
