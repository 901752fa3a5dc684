"""Lanes about the supervisor itself: new code, a crash loop, a silent broker."""

from __future__ import annotations

from typing import Final

from .lane import OWN_PARTITIONS, Group, Lane, LaneFault, Trigger

SUPERVISION: Final = (
    Lane(
        name="queue-restart",
        sentence="the supervisor is asked for new code while jobs run; what starts later has it",
        groups=(
            Group(name="old", jobs=8, work_s=4, runs=(1,)),
            Group(name="new", jobs=4, work_s=1, when="after", runs=(1,)),
        ),
        restart=Trigger(starts=2),
        lane_s=40,
        pids_min=4,
        killed_max=0,
    ),
    Lane(
        name="crash-loop",
        sentence="jobs end one worker after the other until the circuit opens, while another works",
        groups=(
            Group(name="sibling", jobs=1, work_s=60, timeout_s=25, tries=1, ends="failed"),
            Group(
                name="exits",
                jobs=6,
                acts=("exit",),
                awaits_start=True,
                tries=1,
                ends="failed",
                pickups=(1, 2),
                cause="max_attempts",
                burst=(5, 40),
            ),
        ),
        settings=("restart_backoff_max_s=6", "stable_after_s=12"),
        waives={"pace": "an open circuit is what the lane is about"},
        lane_s=150,
        idle_s=90,
        deaths_max=7,
    ),
    Lane(
        name="stop-frozen",
        sentence="the supervisor stops while the broker is frozen for longer than the grace",
        groups=(
            Group(
                name="work", jobs=2, work_s=5, partition=OWN_PARTITIONS, starts=(1, 2), twice=True
            ),
        ),
        fault=LaneFault(kind="pause-leader", down_s=60, when=Trigger(started=("work/0", "work/1"))),
        also=LaneFault(kind="term-supervisor", down_s=2, when=Trigger(after_s=1)),
        scale=0.4,
        lane_s=110,
        idle_s=90,
        killed_max=0,
    ),
    Lane(
        name="probe-broker-hung",
        sentence="the broker freezes for long; the supervisor says so and gets jobs again",
        groups=(
            Group(name="before", jobs=2, work_s=1, runs=(1,)),
            Group(name="after", jobs=2, work_s=1, when="after", runs=(1,)),
        ),
        fault=LaneFault(
            kind="pause-leader",
            down_s=150,
            when=Trigger(ended=("before/0", "before/1"), after_s=10),
        ),
        silent_s=60,
        scale=0.1,
        lane_s=190,
        margin_s=4,
        deaths_max=0,
    ),
    Lane(
        name="job-metrics",
        sentence="eight jobs are done and seven fail, then eight more; the broker counts them so",
        groups=(
            Group(name="done", jobs=8, work_s=1, runs=(1,)),
            Group(
                name="fails",
                jobs=7,
                acts=("throw",),
                tries=1,
                ends="failed",
                runs=(1,),
                pickups=(1,),
                cause="exception",
            ),
            Group(name="more", jobs=8, work_s=1, when="after", runs=(1,)),
        ),
        counts=((8, 7), (16, 7)),
        lane_s=30,
        deaths_max=0,
    ),
    Lane(
        name="install-owner",
        sentence="supervisors are started in state directories that are not theirs alone, while "
        "the rightful one works",
        groups=(
            Group(name="work", jobs=4, work_s=10, runs=(1,)),
            Group(name="after", jobs=2, work_s=1, when="after", runs=(1,)),
        ),
        strangers=("another user's", "open to others", "a link", "in use"),
        lane_s=60,
        margin_s=10,
        deaths_max=0,
    ),
)
