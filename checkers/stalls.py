"""Whether anything still goes on when nothing is broken any more."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from typing import Final

from .broker_contract import STALLED
from .broker_evidence import OpFinding, Paired
from .findings import seconds
from .starvation import Starvation
from .windows import NS, Windows

STALL_S: Final = 12.0
"""A node that acknowledges no write for so long, with every fault over, has stalled."""


def judge_stalled(
    pairs: Sequence[Paired], windows: Windows, writes: Collection[str], starvation: Starvation
) -> Iterator[OpFinding]:
    """Judge `stalled`, over what was asked after the last fault window.

    Args:
        pairs: All operations.
        windows: Those of all faults, recovery included.
        writes: The names of those operations that write.
        starvation: When the machine did not let nodes or clients run.
    """
    quiet_ns = max((window.until_ns for window in windows.all), default=0)
    asked: dict[str, list[Paired]] = defaultdict(list)
    for pair in pairs:
        if pair.invoke.f in writes and pair.invoke.time_ns >= quiet_ns and pair.invoke.node:
            asked[pair.invoke.node].append(pair)
    for node, tries in asked.items():
        if any(pair.is_ok for pair in tries):
            continue
        ends_ns = [pair.end.time_ns for pair in tries if pair.end is not None]
        tried_ns = max(ends_ns, default=0) - tries[0].invoke.time_ns
        if tried_ns >= STALL_S * NS:
            text = (
                f"{node} acknowledged none of the last {len(tries)} writes, over "
                f"{seconds(tried_ns)}, although every fault was over"
            )
            ops = (*tries[0].ops, *tries[-1].ops)
            tried = (tries[0].invoke.time_ns, max(ends_ns))
            doubt = starvation.doubt(tried, round(STALL_S * NS))
            yield OpFinding(STALLED, text, ops, doubt=doubt)
