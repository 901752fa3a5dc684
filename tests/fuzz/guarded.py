"""A real node to explore, open or asking for tokens, and those who ask it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from ..system.http.test_auth import token
from ..system.node.node_cluster import Cluster, NodeProcess
from .surface import ANYBODY, Caller, Surface

SECRET: Final = "a secret of thirty-two bytes, or more"
DOORS: Final = ("open", "tokens")


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


@contextmanager
def explored_node(folder: Path, door: str) -> Iterator[tuple[NodeProcess, Surface]]:
    """A node and its surface; afterwards it must still serve, and have noticed nothing wrong.

    Raises:
        AssertionError: It does not, or has.
    """
    settings: dict[str, object] = {}
    asking: tuple[Caller, ...] = (ANYBODY,)
    if door == "tokens":
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
        yield node, surface
        surface.close()
        _check_unharmed(node, dict(asking[0].headers))
    finally:
        cluster.end()


def _check_unharmed(node: NodeProcess, headers: dict[str, str]) -> None:
    client = node.client()
    status, _ = client.call("GET", "/health")
    assert status == 200, f"the node answers {status} afterwards"
    counters = client.call("GET", "/metrics", None, headers)[1]["counters"]
    client.hang_up()
    assert counters["internal_errors"] == 0, f"internal errors: {node.events('internal')}"
    assert node.process is not None
    assert node.process.poll() is None, "the node has ended"
