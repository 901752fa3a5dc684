"""No request that can be made from the surface's document gets an answer that it does not state."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ..system.http.test_auth import token
from ..system.node.node_cluster import Cluster, NodeProcess
from .surface import ANYBODY, MODES, Caller, Surface

pytestmark = pytest.mark.cluster

SECRET = "a secret of thirty-two bytes, or more"
EXAMPLES = 6
SEED = 1


def callers() -> tuple[Caller, ...]:
    """One of each role first, then those who must not get in."""
    known = [
        Caller(role, {"Authorization": f"Bearer {token(role=role, sub=role)}"})
        for role in ("admin", "read-write", "read-only", "write-only")
    ]
    strangers = [
        Caller("nobody", is_known=False),
        Caller("a liar", {"Authorization": f"Bearer {token(b'x' * 32, role='admin')}"}, False),
        Caller("a late one", {"Authorization": f"Bearer {token(role='admin', exp=1)}"}, False),
        Caller("nonsense", {"Authorization": "Bearer ..."}, False),
    ]
    return (*known, *strangers)


@pytest.fixture(scope="module", params=["open", "tokens"])
def explored(request: Any, tmp_path_factory: Any) -> Iterator[tuple[NodeProcess, Surface]]:
    folder: Path = tmp_path_factory.mktemp(request.param)
    settings: dict[str, object] = {}
    asking: tuple[Caller, ...] = (ANYBODY,)
    if request.param == "tokens":
        secret = folder / "secret"
        secret.write_text(SECRET)
        secret.chmod(0o600)
        settings["jwt_secret_file"] = str(secret)
        asking = callers()
    cluster = Cluster(folder, 1, **settings)
    try:
        cluster.start()
        node = cluster.nodes["n1"]
        surface = Surface(f"http://127.0.0.1:{node.port}", asking)
        for operation in surface.operations():
            for mode in MODES:
                surface.explore(operation, mode, EXAMPLES, SEED)
        yield node, surface
        surface.close()
    finally:
        cluster.end()


def test_every_answer_is_a_stated_one(explored: tuple[NodeProcess, Surface]) -> None:
    _, surface = explored
    assert surface.tally.requests > 500
    assert surface.tally.statuses[200] > 50
    assert surface.tally.statuses[400] > 50
