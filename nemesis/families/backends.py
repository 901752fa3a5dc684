"""Faults on servers that an audited system uses."""

from __future__ import annotations

from typing import Final

from ..acts import MakeAct
from ..backend_act import HitBackend
from ..selectors import BACKEND
from ..spec import NemesisSpec

SPECS: Final[tuple[NemesisSpec, ...]] = (
    NemesisSpec(
        name="kill-backend",
        sentence="kills the server that the audited system uses with SIGKILL and starts it again",
        target=BACKEND,
        family="process",
        takes=frozenset({"lost"}),
    ),
    NemesisSpec(
        name="restart-backend",
        sentence="asks the server that the audited system uses to stop with SIGTERM and starts it "
        "again",
        target=BACKEND,
        family="process",
        takes=frozenset({"lost"}),
        healing_s=3.0,
    ),
    NemesisSpec(
        name="pause-backend",
        sentence="stops the server that the audited system uses with SIGSTOP and continues it",
        target=BACKEND,
        family="process",
        takes=frozenset({"lost", "pause"}),
        pauses=True,
    ),
)

ACTS: Final[dict[str, MakeAct]] = dict.fromkeys((spec.name for spec in SPECS), HitBackend)
