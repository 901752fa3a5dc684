"""Lanes with two supervisors of one queue, each with a fixed number of workers."""

from __future__ import annotations

from typing import Final

from .lane import Group, Lane, LaneFault, Trigger

REPLICATED: Final = (
    Lane(
        name="stop-lease",
        sentence="one of two supervisors stops while its only job outlasts the lease",
        groups=(Group(name="work", jobs=1, work_s=36, timeout_s=39, runs=(1,)),),
        workers=1,
        replicas=2,
        grace_s=40,
        fault=LaneFault(kind="term-supervisor", down_s=2, when=Trigger(started=("work/0",))),
        lane_s=37,
    ),
    Lane(
        name="replicas-kill",
        sentence="one of two supervisors is killed while jobs run, and started again",
        groups=(Group(name="work", jobs=40, work_s=2, starts=(1, 2)),),
        replicas=2,
        fault=LaneFault(kind="kill-supervisor", down_s=10, when=Trigger(starts=3)),
        lane_s=60,
        idle_s=30,
        again_min=1,
    ),
    Lane(
        name="replicas-rolling",
        sentence="two supervisors are stopped and started again, one after the other",
        groups=(Group(name="work", jobs=60, work_s=1, runs=(1,)),),
        replicas=2,
        fault=LaneFault(kind="term-supervisor", down_s=2, when=Trigger(starts=3), each=True),
        lane_s=45,
    ),
)
