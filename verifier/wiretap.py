"""The wiretap of a private network, as the run starts it."""

from __future__ import annotations

import os
from typing import Final

import msgspec
import trio

from ..histories.pcapng import segments_of
from ..nemesis.private_network import DATA_NETWORK, PrivateNetwork
from ..nemesis.proxy.control import CapturePlan
from ..nemesis.wiretap.plan import TappedEnd, TapPlan
from .children import log_tail
from .errors import HarnessError
from .proxied_network import Spawn
from .store import RunPaths

WIRETAP_MODULE: Final = "atleastonce.nemesis.wiretap"
_START_S: Final = 20.0
_POLL_S: Final = 0.01


def start_wiretap(
    private: PrivateNetwork, capture: tuple[int, int], run: RunPaths, spawn: Spawn
) -> None:
    """Start it, from inside the namespace that has the cables.

    Args:
        private: The network.
        capture: Bytes of a segment, and segments.
        run: Where the files go.
        spawn: Starts the process.
    """
    plan = TapPlan(
        [TappedEnd(end.name, end.number, end.port) for end in private.ends.values()],
        list(DATA_NETWORK),
        os.getpid(),
        CapturePlan(str(run.capture), *capture),
    )
    run.wiretap_config.write_bytes(msgspec.json.format(msgspec.json.encode(plan), indent=2) + b"\n")
    spawn(WIRETAP_MODULE, "wiretap", run.wiretap_config, run.links_log)


async def wait_for_wiretap(run: RunPaths) -> None:
    """Wait until it listens, when its first file is there.

    Raises:
        HarnessError: It does not in time.
    """
    with trio.move_on_after(_START_S):
        while not segments_of(run.capture):
            await trio.sleep(_POLL_S)
        return
    raise HarnessError(
        f"the wiretap does not start; {run.links_log} ends with\n{log_tail(run.links_log)}"
    )
