"""The lanes by name."""

from __future__ import annotations

from typing import Final

from .deaths import DYING
from .lane import Lane
from .replicas import REPLICATED
from .stops import BREAKING, STOPPING
from .supervision import SUPERVISION
from .throws import THROWING

LANES: Final[dict[str, Lane]] = {
    lane.name: lane for lane in (*THROWING, *DYING, *STOPPING, *BREAKING, *REPLICATED, *SUPERVISION)
}
