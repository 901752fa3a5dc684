"""What a node loads before it serves, and what it does without."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

from atleastonce.system.node.own_version import own_version

SLOW = ("jwt", "cryptography", "importlib.metadata", "email", "http.client", "click", "scapy")


def test_a_node_without_a_secret_loads_none_of_the_slow_libraries() -> None:
    code = (
        "import sys, atleastonce.system.node.process\n"
        "from atleastonce.system.node.own_version import own_version\n"
        "own_version()\n"
        f"print([name for name in {SLOW!r} if name in sys.modules])"
    )
    done = subprocess.run((sys.executable, "-c", code), capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_version_is_the_one_that_is_installed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert own_version() == version("atleastonce")
    (tmp_path / "atleastonce-9.8.7.dist-info").mkdir()
    (tmp_path / "atleastonce_more-1.dist-info").mkdir()
    monkeypatch.setattr(sys, "path", [str(tmp_path / "nowhere"), str(tmp_path), *sys.path])
    assert own_version() == "9.8.7"
