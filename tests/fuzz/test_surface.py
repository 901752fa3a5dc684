"""No request that can be made from the surface's document gets an answer that it does not state."""

from __future__ import annotations

from pathlib import Path

import pytest

from .guarded import DOORS, explored_node
from .surface import MODES

pytestmark = pytest.mark.cluster

EXAMPLES = 3
SEED = 1


@pytest.mark.parametrize("door", DOORS)
def test_every_answer_is_a_stated_one(tmp_path: Path, door: str) -> None:
    with explored_node(tmp_path, door) as (_, surface):
        for operation in surface.operations():
            for mode in MODES:
                surface.explore(operation, mode, EXAMPLES, SEED)
        tally = surface.tally
    assert tally.requests > 200
    assert tally.statuses[400] > 20
    assert tally.statuses[200] > 20
