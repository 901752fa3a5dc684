"""A cluster of one real node."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from atleastonce.verifier.children import PortHold

from .supervised import wait_for


def is_healthy(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=1) as answer:
            return bool(json.load(answer)["status"] == "healthy")
    except (urllib.error.URLError, ConnectionError, TimeoutError):
        return False


@contextmanager
def one_node(root: Path) -> Iterator[int]:
    """Run a node that keeps its data under `root`; yield its client port."""
    hold = PortHold()
    ports = hold.take(["n1"], 0)["n1"]
    port = ports.client
    (root / "token").write_text("a secret of this test alone")
    (root / "token").chmod(0o600)
    config = {
        "node": "n1",
        "data_dir": str(root / "n1"),
        "client": ["127.0.0.1", port],
        "peers": {"n1": ["127.0.0.1", ports.peer]},
        "token_file": str(root / "token"),
        "die_with_parent": True,
        "parent_pid": os.getpid(),
    }
    path = root / "n1.json"
    path.write_text(json.dumps(config))
    with open(root / "n1.log", "wb") as log:
        node = subprocess.Popen(
            [sys.executable, "-m", "atleastonce.system.node", str(path)],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    try:
        wait_for(lambda: is_healthy(port), "a healthy node")
        yield port
    finally:
        node.kill()
        node.wait(15)
        hold.close()
