"""Lanes in which the supervisor stops gracefully, or the broker goes away."""

from __future__ import annotations

from typing import Final

from .lane import ONE_PARTITION, OWN_PARTITIONS, PLUG, Group, Lane, LaneFault, Trigger

_LONG: Final = 0.1
"""Scale of the lanes whose jobs last a minute."""

STOPPING: Final = (
    Lane(
        name="stop-short",
        sentence="the supervisor stops while two short jobs run, and starts again",
        groups=(Group(name="work", jobs=2, work_s=10, partition=OWN_PARTITIONS, runs=(1,)),),
        fault=LaneFault(
            kind="term-supervisor", down_s=2, when=Trigger(started=("work/0", "work/1"))
        ),
        lane_s=20,
    ),
    Lane(
        name="stop-backlog",
        sentence="the supervisor stops while its workers hold a backlog, and starts again",
        groups=(Group(name="work", jobs=16, work_s=4, runs=(1,)),),
        fault=LaneFault(kind="term-supervisor", down_s=2, when=Trigger(starts=2)),
        lane_s=45,
        idle_s=4,
    ),
    Lane(
        name="stop-long",
        sentence="the supervisor stops while two jobs of a minute run, and starts again",
        groups=(Group(name="work", jobs=2, work_s=60, partition=OWN_PARTITIONS, runs=(1,)),),
        fault=LaneFault(
            kind="term-supervisor", down_s=5, when=Trigger(started=("work/0", "work/1"))
        ),
        scale=_LONG,
        timeout_s=80,
        retry_after_s=90,
        grace_s=100,
        lane_s=80,
    ),
    Lane(
        name="stop-long-batch",
        sentence="one of two long jobs is done and the other runs when the supervisor stops",
        groups=(
            PLUG,
            Group(
                name="first",
                jobs=1,
                work_s=60,
                partition=ONE_PARTITION,
                awaits_start=True,
                runs=(1,),
            ),
            Group(name="second", jobs=1, work_s=60, partition=ONE_PARTITION, runs=(1,)),
        ),
        workers=1,
        fault=LaneFault(
            kind="term-supervisor",
            down_s=5,
            when=Trigger(ended=("first/0",), started=("second/0",)),
        ),
        scale=_LONG,
        timeout_s=80,
        retry_after_s=90,
        grace_s=100,
        lane_s=140,
    ),
)

BREAKING: Final = (
    Lane(
        name="backend-restart",
        sentence="the broker restarts while three hundred jobs wait",
        groups=(Group(name="work", jobs=300, work_s=0.1, runs=(1,)),),
        fault=LaneFault(kind="term-leader", down_s=1, when=Trigger(starts=1, after_s=1)),
        lane_s=60,
        idle_s=10,
    ),
    Lane(
        name="pause-short",
        sentence="the broker freezes for a moment while two jobs run",
        groups=(Group(name="work", jobs=2, work_s=10, partition=OWN_PARTITIONS, runs=(1,)),),
        fault=LaneFault(kind="pause-leader", down_s=5, when=Trigger(started=("work/0", "work/1"))),
        lane_s=20,
    ),
    Lane(
        name="pause-long",
        sentence="the broker freezes for longer than a lease while two jobs run",
        groups=(
            Group(
                name="work",
                jobs=2,
                work_s=20,
                timeout_s=25,
                partition=OWN_PARTITIONS,
                starts=(1, 2),
                twice=True,
            ),
        ),
        fault=LaneFault(kind="pause-leader", down_s=45, when=Trigger(started=("work/0", "work/1"))),
        lane_s=110,
        idle_s=45,
    ),
    Lane(
        name="dispatch-backend-down",
        sentence="a job is dispatched while the broker is down, and two when it is back",
        groups=(
            Group(name="refused", jobs=1, when="down", ends="refused"),
            Group(name="work", jobs=2, work_s=1, when="after", runs=(1,)),
        ),
        fault=LaneFault(kind="kill-all", down_s=10, when=Trigger()),
        lane_s=10,
        idle_s=5,
    ),
)
