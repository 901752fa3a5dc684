"""What a user installs is one import name that holds exactly the six packages."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

import atleastonce

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = {"verifier", "system", "workloads", "nemesis", "histories", "checkers"}


def test_the_import_package_links_exactly_the_six_folders() -> None:
    links = {path.name for path in (ROOT / "src" / "atleastonce").iterdir() if path.is_symlink()}
    assert links == PACKAGES


@pytest.mark.parametrize("package", sorted(PACKAGES))
def test_each_link_leads_to_the_folder_of_its_name(package: str) -> None:
    assert (ROOT / "src" / "atleastonce" / package).resolve() == ROOT / package
    assert importlib.import_module(f"atleastonce.{package}").__doc__


def test_the_version_is_the_distribution_s() -> None:
    assert atleastonce.__version__.count(".") == 2


def test_every_dependency_is_pinned_with_a_hash() -> None:
    lines = (ROOT / "requirements.lock").read_text(encoding="utf-8").splitlines()
    pins = [line for line in lines if line and not line.startswith((" ", "#"))]
    assert pins
    for pin in pins:
        assert "==" in pin, pin
        assert pin.endswith("\\"), f"no hash follows {pin}"
