"""Faults on single packets, which only a private network has."""

from __future__ import annotations

import random
from typing import Final

from ...histories.ops import Json
from ..acts import MakeAct
from ..levels import PACKETS
from ..packet_act import CorruptPackets, LosePackets, PacketOptions, ReorderPackets, RepeatPackets
from ..selectors import ALL, SOME_NODES
from ..settings import NemesisSettings
from ..spec import Draw, NemesisSpec

_DURATION_S: Final = (3.0, 6.0)


def _between(least: float, most: float) -> Draw:
    """Draw a share within bounds, in whole hundredths."""

    def draw(stream: random.Random, settings: NemesisSettings) -> dict[str, Json]:
        del settings
        return {"share": stream.randrange(round(least * 100), round(most * 100) + 1) / 100}

    return draw


def _spec(name: str, sentence: str, least: float, most: float) -> NemesisSpec:
    return NemesisSpec(
        name=name,
        sentence=sentence,
        target=ALL,
        targets=SOME_NODES,
        named=True,
        family="network",
        needs=frozenset({PACKETS}),
        takes=frozenset({"node"}),
        options=PacketOptions,
        draw=_between(least, most),
        nodes_min=3,
        healing_s=2.0,
        overlaps=True,
        duration_s=_DURATION_S,
    )


SPECS: Final = (
    _spec("packet-loss", "loses some of the packets between nodes", 0.05, 0.3),
    _spec("packet-duplication", "has some of the packets between nodes arrive twice", 0.1, 0.5),
    _spec("packet-reorder", "has some of the packets between nodes overtaken by others", 0.1, 0.5),
    _spec(
        "packet-corruption",
        "changes some of the packets between nodes so that TCP's checksum is still right",
        0.01,
        0.1,
    ),
)

ACTS: Final[dict[str, MakeAct]] = {
    "packet-loss": LosePackets,
    "packet-duplication": RepeatPackets,
    "packet-reorder": ReorderPackets,
    "packet-corruption": CorruptPackets,
}
