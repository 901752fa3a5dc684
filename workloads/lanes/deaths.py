"""Lanes in which workers die: of their own jobs, or killed."""

from __future__ import annotations

from typing import Final

from .lane import ONE_PARTITION, OWN_PARTITIONS, PLUG, Act, Group, Lane, LaneFault, Trigger

_DEATH_LEASE_S: Final = 10.0
_DEATH_SCALE: Final = 0.4


def _victims(name: str, acts: tuple[Act, ...], runs: int, refused: bool) -> Group:
    """Jobs whose every run ends their worker; a last pickup refuses them where none told why."""
    numbers = tuple(range(1, runs + 1))
    return Group(
        name=name,
        jobs=1,
        acts=acts,
        work_s=30,
        tries=runs,
        timeout_s=2,
        partition=ONE_PARTITION,
        ends="failed",
        starts=(runs, runs),
        runs=numbers,
        pickups=(*numbers, runs + 1) if refused else numbers,
        cause="max_attempts" if refused else "timeout",
    )


def _death(name: str, sentence: str, victim: Group, leases: int) -> Lane:
    return Lane(
        name=name,
        sentence=f"{sentence}; the next job of its partition runs once",
        groups=(
            victim,
            Group(name="follower", jobs=1, work_s=0.2, partition=ONE_PARTITION, runs=(1,)),
        ),
        scale=_DEATH_SCALE,
        timeout_s=8,
        retry_after_s=_DEATH_LEASE_S,
        grace_s=12,
        lane_s=leases * (_DEATH_LEASE_S + 2),
        idle_s=_DEATH_LEASE_S,
        deaths_max=3,
    )


def _fatal(name: str, sentence: str, act: Act) -> Lane:
    return Lane(
        name=name,
        sentence=sentence,
        groups=(
            Group(
                name="fatal",
                jobs=2,
                partition=OWN_PARTITIONS,
                acts=(act,),
                tries=2,
                ends="failed",
                starts=(2, 2),
                runs=(1, 2),
                pickups=(1, 2, 3),
                cause="max_attempts",
            ),
        ),
        lane_s=65,
        idle_s=30,
        deaths_max=4,
        settings=("restart_backoff_max_s=6", "stable_after_s=12"),
    )


DYING: Final = (
    _fatal("memory-fatal", "two jobs abort their worker on each of two tries", "abort"),
    _fatal("exit-fatal", "two jobs end their worker with _exit on each of two tries", "exit"),
    Lane(
        name="memory-limit",
        sentence="six jobs leave their worker above its memory limit, which is then replaced",
        groups=(Group(name="grows", jobs=6, acts=("grow",), grow_mib=110, runs=(1,)),),
        settings=("memory_mib=96",),
        lane_s=20,
        pids_min=3,
        deaths_max=6,
    ),
    Lane(
        name="worker-kill",
        sentence="the worker of the first job that starts is killed",
        groups=(Group(name="work", jobs=8, work_s=4, starts=(1, 2)),),
        fault=LaneFault(kind="kill-worker", down_s=0, when=Trigger(starts=1)),
        lane_s=52,
        idle_s=30,
        again_min=1,
        deaths_max=1,
    ),
    Lane(
        name="master-kill",
        sentence="the supervisor is killed when the first job starts, and started again",
        groups=(Group(name="work", jobs=8, work_s=4, starts=(1, 2)),),
        fault=LaneFault(kind="kill-supervisor", down_s=3, when=Trigger(starts=1)),
        lane_s=60,
        idle_s=35,
        again_min=1,
    ),
    Lane(
        name="master-kill-batch",
        sentence="one job of a batch is done and the next one runs when the supervisor is killed",
        groups=(
            PLUG,
            Group(
                name="first",
                jobs=1,
                work_s=6,
                partition=ONE_PARTITION,
                awaits_start=True,
                runs=(1,),
            ),
            Group(
                name="second",
                jobs=1,
                work_s=6,
                partition=ONE_PARTITION,
                starts=(2, 2),
                runs=(1, 2),
            ),
        ),
        workers=1,
        fault=LaneFault(
            kind="kill-supervisor",
            # Past the lease: what the dead workers owed cannot be made good any more.
            down_s=40,
            when=Trigger(ended=("first/0",), started=("second/0",), after_s=2),
        ),
        lane_s=80,
        idle_s=45,
    ),
    _death(
        "death-timeout",
        "a job outlasts its timeout on each of two tries",
        _victims("dies", ("work",), 2, refused=False),
        2,
    ),
    _death(
        "death-sigkill",
        "a job kills its worker on each of two tries",
        _victims("dies", ("kill",), 2, refused=True),
        3,
    ),
    _death(
        "death-release-timeout",
        "a job releases itself, then outlasts its timeout twice",
        _victims("dies", ("release", "work"), 3, refused=False),
        3,
    ),
    _death(
        "death-release-sigkill",
        "a job releases itself, then kills its worker twice",
        _victims("dies", ("release", "kill"), 3, refused=True),
        4,
    ),
)
