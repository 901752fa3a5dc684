"""Faults on processes: nodes, the supervisor and its workers killed, stopped or paused."""

from __future__ import annotations

from typing import Final

from ..acts import MakeAct
from ..node_acts import KillNodes, PauseNode, TermNode, TermNodes
from ..node_composites import KillCatchingUp, KillElecting, PauseKill, RollingRestart
from ..selectors import ALL, LEADER, MAJORITY, MINORITY, ONE, SOME_NODES
from ..spec import AT_ONCE, NemesisSpec
from ..supervisor_acts import StopSupervisor
from ..supervisor_composites import KillForkServer, KillLeaseHolder, KillTogether
from ..worker_act import KillWorker, WorkerOptions, draw_state

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
        options=WorkerOptions,
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
    NemesisSpec(
        name="kill-nodes",
        sentence="kills one node, the leader, a minority, a majority or all, as the seed draws, "
        "and starts them again",
        target="one",
        drawn=(ONE, LEADER, MINORITY, MAJORITY, ALL),
        targets=SOME_NODES,
        named=True,
        family="process",
        takes=frozenset({"node", "lost"}),
        nodes_min=3,
    ),
    NemesisSpec(
        name="term-nodes",
        sentence="asks one node, the leader, a minority, a majority or all, as the seed draws, "
        "to stop with SIGTERM, and starts them again",
        target="one",
        drawn=(ONE, LEADER, MINORITY, MAJORITY, ALL),
        targets=SOME_NODES,
        named=True,
        family="process",
        takes=frozenset({"stepwise", "node", "lost"}),
        nodes_min=3,
        healing_s=3.0,
    ),
    NemesisSpec(
        name="pause-nodes",
        sentence="stops one node, the leader, a minority, a majority or all, as the seed draws, "
        "and continues them",
        target="one",
        drawn=(ONE, LEADER, MINORITY, MAJORITY, ALL),
        targets=SOME_NODES,
        named=True,
        family="process",
        takes=frozenset({"node", "pause"}),
        nodes_min=3,
        pauses=True,
    ),
    NemesisSpec(
        name="rolling-restart",
        sentence="restarts all nodes with SIGTERM, one after the other, the leader last",
        target="all",
        family="process",
        takes=frozenset({"stepwise", "node"}),
        nodes_min=3,
        healing_s=8.0,
        duration_s=AT_ONCE,
    ),
    NemesisSpec(
        name="kill-electing",
        sentence="kills the leading node, and the one that is about to follow it or just has",
        target="all",
        family="process",
        takes=frozenset({"stepwise", "node", "lost"}),
        nodes_min=3,
        healing_s=4.0,
    ),
    NemesisSpec(
        name="kill-catching-up",
        sentence="kills a follower, starts it, and kills it again while it is behind the others",
        target="all",
        family="process",
        takes=frozenset({"stepwise", "node", "lost"}),
        nodes_min=3,
        healing_s=5.0,
    ),
    NemesisSpec(
        name="pause-kill",
        sentence="pauses some nodes, kills one of the others, pauses the rest and continues the "
        "first: those that are behind and one that was killed are the majority",
        target="all",
        family="process",
        takes=frozenset({"stepwise", "node", "lost", "pause"}),
        nodes_min=3,
        healing_s=4.0,
        duration_s=(4.0, 7.0),
    ),
    NemesisSpec(
        name="kill-worker-state",
        sentence="kills a worker that holds unstarted jobs, is in a job, or has ended one that is "
        "not acked yet, as the seed draws",
        target="worker",
        family="process",
        takes=frozenset({"worker"}),
        options=WorkerOptions,
        draw=draw_state,
        duration_s=AT_ONCE,
    ),
    NemesisSpec(
        name="kill-fork-server",
        sentence="kills the process that workers are forked from, which takes them along; "
        "the master starts another",
        target="supervisor",
        family="process",
        takes=frozenset({"supervisor"}),
        healing_s=4.0,
        duration_s=AT_ONCE,
    ),
    NemesisSpec(
        name="kill-supervisor-workers",
        sentence="kills the master, the fork server and all workers at once, and starts them again",
        target="supervisor",
        family="process",
        takes=frozenset({"lost", "supervisor"}),
    ),
    NemesisSpec(
        name="kill-lease-holder",
        sentence="kills a worker in the middle of a job with the master that renews its lease, "
        "and starts them again",
        target="supervisor",
        family="process",
        takes=frozenset({"lost", "supervisor"}),
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
    "kill-nodes": KillNodes,
    "term-nodes": TermNodes,
    "pause-nodes": PauseNode,
    "rolling-restart": RollingRestart,
    "kill-electing": KillElecting,
    "kill-catching-up": KillCatchingUp,
    "pause-kill": PauseKill,
    "kill-worker-state": KillWorker,
    "kill-fork-server": KillForkServer,
    "kill-supervisor-workers": KillTogether,
    "kill-lease-holder": KillLeaseHolder,
}
