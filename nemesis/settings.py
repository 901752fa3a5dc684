"""How faults are planned and how long the nemesis waits, whatever the plan."""

from __future__ import annotations

from typing import Annotated, Final

import msgspec
from msgspec import Meta

Seconds = Annotated[float, Meta(ge=0.01, le=3600)]


class NemesisSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How faults are planned and how long the nemesis waits for things. All in seconds.

    Attributes:
        down_s: A killed or stopped process stays down for so long, give or take a quarter.
        pause_s_min: Shortest pause.
        pause_s_max: Longest pause.
        first_s: When the first fault begins, plus at most half a second.
        leader_wait_s: A fault waits so long for its target (a leader, a supervisor) to exist;
            for twice `recover_wait_s` more while other faults hold nodes.
        worker_wait_s: `kill-worker` waits so long for a worker that runs a job and holds others.
        exit_wait_s: A killed process must be gone within this.
        node_grace_s: A node must stop by itself within this after SIGTERM; then it is killed.
        supervisor_grace_s: The same for the supervisor.
        recover_wait_s: What was healed is watched for so long until it is healthy.
        heal_wait_s: Healing that takes longer is given up.
    """

    down_s: Seconds = 2.0
    pause_s_min: Seconds = 1.5
    pause_s_max: Seconds = 3.0
    first_s: Seconds = 3.0
    leader_wait_s: Seconds = 8.0
    worker_wait_s: Seconds = 4.0
    exit_wait_s: Seconds = 5.0
    node_grace_s: Seconds = 10.0
    supervisor_grace_s: Seconds = 30.0
    recover_wait_s: Seconds = 20.0
    heal_wait_s: Seconds = 30.0

    def __post_init__(self) -> None:
        if self.pause_s_min > self.pause_s_max:
            raise ValueError(
                f"pause_s_min {self.pause_s_min:g} is above pause_s_max {self.pause_s_max:g}"
            )


DEFAULTS: Final = NemesisSettings()
