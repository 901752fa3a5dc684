"""Faults on the links between nodes, clients and workers."""

from __future__ import annotations

from typing import Final

from ..acts import MakeAct
from ..spec import NemesisSpec

SPECS: Final[tuple[NemesisSpec, ...]] = ()

ACTS: Final[dict[str, MakeAct]] = {}
