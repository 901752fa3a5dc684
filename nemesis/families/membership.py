"""Faults on the set of nodes: removed, wiped, replaced, joined again."""

from __future__ import annotations

from typing import Final

from ..acts import MakeAct
from ..spec import NemesisSpec

SPECS: Final[tuple[NemesisSpec, ...]] = ()

ACTS: Final[dict[str, MakeAct]] = {}
