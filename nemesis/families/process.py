"""Faults on processes: nodes, the supervisor and its workers killed, stopped or paused."""

from __future__ import annotations

from typing import Final

from ..acts import MakeAct
from ..node_acts import KillNodes, PauseNode, TermNode
from ..spec import AT_ONCE, NemesisSpec
from ..supervisor_acts import StopSupervisor
from ..worker_act import KillWorker

SPECS: Final = (
    NemesisSpec(
        name="kill-leader",
        sentence="kills the leading node with SIGKILL and starts it again",
        target="leader",
        family="process",
        takes=frozenset({"node", "lost"}),
        nodes_min=3,
    ),
    NemesisSpec(
        name="term-leader",
        sentence="asks the leading node to stop with SIGTERM, as a deploy does, "
        "and starts it again",
        target="leader",
        family="process",
        takes=frozenset({"node"}),
        nodes_min=3,
        healing_s=3.0,
    ),
    NemesisSpec(
        name="kill-follower",
        sentence="kills a node that does not lead with SIGKILL and starts it again",
        target="follower",
        family="process",
        takes=frozenset({"node", "lost"}),
        nodes_min=3,
    ),
    NemesisSpec(
        name="kill-all",
        sentence="kills all nodes within a millisecond, as a power cut does, and starts them again",
        target="nodes",
        family="process",
        takes=frozenset({"node", "lost"}),
    ),
    NemesisSpec(
        name="kill-worker",
        sentence="kills a worker with SIGKILL in the middle of a job, "
        "with unstarted jobs in its hands",
        target="worker",
        family="process",
        takes=frozenset({"worker"}),
        duration_s=AT_ONCE,
    ),
    NemesisSpec(
        name="kill-supervisor",
        sentence="kills the supervisor's master with SIGKILL, which takes its workers along, "
        "and starts it",
        target="supervisor",
        family="process",
        takes=frozenset({"lost", "supervisor"}),
    ),
    NemesisSpec(
        name="term-supervisor",
        sentence="asks the supervisor to stop with SIGTERM, as a deploy does, and starts it again",
        target="supervisor",
        family="process",
        takes=frozenset({"supervisor"}),
        healing_s=6.0,
    ),
    NemesisSpec(
        name="pause-leader",
        sentence="stops the leading node with SIGSTOP, as a long pause would, and continues it",
        target="leader",
        family="process",
        takes=frozenset({"node", "pause"}),
        nodes_min=3,
        pauses=True,
    ),
)

ACTS: Final[dict[str, MakeAct]] = {
    "kill-leader": KillNodes,
    "kill-follower": KillNodes,
    "kill-all": KillNodes,
    "term-leader": TermNode,
    "pause-leader": PauseNode,
    "kill-supervisor": StopSupervisor,
    "term-supervisor": StopSupervisor,
    "kill-worker": KillWorker,
}
