"""A short notation for histories, for tests and for reports of what went wrong.

One event a line, `SECONDS WHO-OR-WHAT …`; blank lines and text behind ` #` are left out:

    0.0  dispatch a tries=3 backoff=1,2 timeout=5 p=0   ends ok `queued` 10 ms later
    0.1  dispatch b delay=2 status=scheduled            info / fail instead of ok: `dispatch b info`
    0.2  w1 got a#1 b#1                                 w1 received a batch, with attempt numbers
    0.3  w1 start a#1
    0.4  w1 end a threw                                 completed when no outcome is given
    0.4  w1 ack a
    0.5  w1 gave-up a exception                         after its run; `refused=4`: without one
    0.6  w1 died 9 popping                              a signal, or `exit=0`
    0.7  master died 9
    1.0  fault kill-leader n1 healed=2 recovered=3      `unseen`: planned, and never seen in effect
    4.0  starved n1 until=9 waited=0.9 ran=0.05         samples of half a second; `own=`, `stolen=`
    8.0  restart code=v2                                an operation that ended ok
    9.0  drained                                        as `drain`, and both stores read back
    9.0  letters a=digest b                             what the dead letters are, where it differs
    9.0  failed a                                       the same for the failed-job store
    9.5  stop

A worker's first line may be `0.0 w1 born code=v2 pid=77`; a name that died and appears again is a
new process.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import msgspec

from .attempts import AttemptRecord, EventName, Outcome, encode_record, payload_digest
from .deaths import Death, Role
from .faults import FaultEvent
from .folder import RunFolder
from .lines import write_lines
from .ops import (
    DISPATCH,
    DRAIN,
    READ_DEAD_LETTERS,
    READ_FAILED_JOBS,
    Json,
    Op,
    OpType,
)
from .scenario import Scenario, write_scenario
from .scheduling import SchedulingSample, Wait

_NS: Final = 1_000_000_000
_ORIGIN_NS: Final = 1_000 * _NS
_WALL_NS: Final = 1_790_000_000 * _NS
_HOST: Final = "here"
_BOOT: Final = "b007b007-0000-4000-8000-000000000000"
_FIRST_PID: Final = 100
_ANSWER_S: Final = 0.010
_SAMPLE_S: Final = 0.5


def at(seconds: float) -> int:
    """Return the CLOCK_MONOTONIC of a notation's second (ns)."""
    return _ORIGIN_NS + round(seconds * _NS)


@dataclass(slots=True)
class NotedProcess:
    """A process of a history that is being built."""

    name: str
    pid: int
    code: str
    records: list[AttemptRecord] = field(default_factory=list)
    runs: dict[str, tuple[str, int, str | None]] = field(default_factory=dict)
    leases: dict[str, str] = field(default_factory=dict)


class HistoryBuilder:
    """Builds the folder of a run, event by event; times are seconds from its origin.

    Attributes:
        alive: Processes by name, those that died left out.
        processes: All processes.
        ops: (seconds, type, client, f, value) of all operations, in any order.
        deaths: Deaths so far.
        faults: Events of faults so far.
        given_up: Jobs that were given up, which the stores will hold.
        hand_backs: Lines of `handbacks.jsonl`.
        scheduling: Lines of `scheduling.jsonl`.
    """

    def __init__(self) -> None:
        self.alive: dict[str, NotedProcess] = {}
        self.processes: list[NotedProcess] = []
        self.ops: list[tuple[float, OpType, int, str, Json]] = []
        self.deaths: list[Death] = []
        self.faults: list[FaultEvent] = []
        self._plan: list[dict[str, Json]] = []
        self.given_up: list[str] = []
        self._clients = 0
        self._offsets: dict[str, int] = {}
        self.hand_backs: list[dict[str, Json]] = []
        self.scheduling: list[SchedulingSample] = []

    def dispatch(
        self,
        t: float,
        job: str,
        result: OpType = "ok",
        *,
        status: str = "",
        offset: int | None = None,
        p: str = "0",
        tries: int = 3,
        backoff_s: Iterable[float] = (1.0,),
        timeout_s: float = 5.0,
        delay_s: float = 0.0,
        done: float | None = None,
        resend: bool = False,
    ) -> None:
        """Add a dispatch; it is answered `queued`, or `scheduled` with a delay."""
        value: dict[str, Json] = {
            "job": job,
            "kind": "short",
            "queue": "jobs",
            "partition": p,
            "tries": tries,
            "backoff_s": list(backoff_s),
            "timeout_s": timeout_s,
            "delay_s": delay_s,
            "not_before_ns": at(t + delay_s) if delay_s else None,
            "digest": payload_digest(job),
            "resend": resend,
        }
        client = self._op(t, DISPATCH, value)
        status = status or ("scheduled" if delay_s else "queued")
        if offset is None and status == "queued":
            offset = self._offsets.get(p, 0)
            self._offsets[p] = offset + 1
        answer: Json = {"status": status, "offset": offset} if result == "ok" else None
        end = t + _ANSWER_S if done is None else done
        self.ops.append((end, result, client, DISPATCH, answer))

    def ask(self, t: float, f: str, value: Json, result: OpType = "ok") -> None:
        """Add any other operation, which ends at once."""
        self.ops.append((t, result, self._op(t, f, None), f, value))

    def _op(self, t: float, f: str, value: Json) -> int:
        self._clients += 1
        self.ops.append((t, "invoke", self._clients, f, value))
        return self._clients

    def drained(self, t: float, letters: Json = None, failed: Json = None) -> None:
        """Add the drain and both reads; the stores hold what was given up unless told otherwise."""
        told: list[Json] = [[job, payload_digest(job), "exception"] for job in self.given_up]
        self.ask(t, DRAIN, {"pending": 0, "timers": 0})
        self.ask(t, READ_DEAD_LETTERS, {"jobs": told if letters is None else letters})
        self.ask(t, READ_FAILED_JOBS, {"jobs": told if failed is None else failed})

    def born(self, worker: str, code: str = "v1", pid: int | None = None) -> None:
        """Start a process under a worker's name."""
        process = NotedProcess(worker, pid or _FIRST_PID + len(self.processes), code)
        self.processes.append(process)
        self.alive[worker] = process

    def got(self, t: float, worker: str, batch: Iterable[tuple[str, int]]) -> None:
        """A worker received a batch of (job, attempt), under a lease of its own."""
        process = self._process(worker)
        lease = f"lease-{process.pid}-{len(process.records)}"
        for job, attempt in batch:
            process.leases[job] = lease
            self._record(t, process, "prefetched", job, None, attempt, lease)

    def start(self, t: float, worker: str, job: str, attempt: int) -> None:
        """A run started."""
        process = self._process(worker)
        run = f"run-{len(process.records)}"
        process.runs[job] = (run, attempt, process.leases.get(job))
        self._record(t, process, "started", job, *process.runs[job])

    def end(self, t: float, worker: str, job: str, outcome: Outcome = "completed") -> None:
        """A run ended."""
        process = self._process(worker)
        self._record(t, process, "ended", job, *process.runs[job], outcome=outcome)

    def ack(self, t: float, worker: str, job: str) -> None:
        """The engine confirmed the end of a run."""
        process = self._process(worker)
        self._record(t, process, "acked", job, *process.runs[job])

    def gave_up(
        self, t: float, worker: str, job: str, cause: str = "exception", refused: int | None = None
    ) -> None:
        """A job was given up, after its last run here or (`refused`: its number) without one."""
        process = self._process(worker)
        run, attempt, lease = process.runs.get(job, (None, 0, process.leases.get(job)))
        ran = refused is None
        self.given_up.append(job)
        self._record(
            t,
            process,
            "gave_up",
            job,
            run if ran else None,
            attempt if refused is None else refused,
            lease,
            cause=cause,
            attempts=attempt if refused is None else refused - 1,
            ran=ran,
            digest=payload_digest(job),
        )

    def died(
        self, t: float, worker: str, status: int = 9, popping: bool = False, role: Role = "worker"
    ) -> None:
        """A process died by a signal (a wait status below 128), or exited (status << 8)."""
        process = self.alive.pop(worker, None)
        pid = process.pid if process else 1
        self.deaths.append(
            Death(
                t_ns=at(t),
                wall_ns=_WALL_NS,
                host=_HOST,
                boot=_BOOT,
                pid=pid,
                status=status,
                signal=status or None,
                exit=None if status else 0,
                role=role,
                popping=popping,
            )
        )

    def fault(
        self,
        t: float,
        kind: str,
        target: str,
        *,
        healed: float | None = None,
        recovered: float | None = None,
        seen: bool = True,
    ) -> None:
        """A fault was opened just before `t` and seen in effect at `t`."""
        id_ = f"{kind}-{len(self._plan) + 1}"
        self._plan.append({"id": id_, "kind": kind, "target": target})
        process = self.alive.get(target)
        times = {
            "opened": t - 0.001,
            "effect": t if seen else None,
            "healed": healed,
            "recovered": recovered,
        }
        for stage, when in times.items():
            if when is not None:
                self.faults.append(
                    msgspec.convert(
                        {
                            "fault": id_,
                            "kind": kind,
                            "target": target,
                            "event": stage,
                            "t_ns": at(when),
                            "wall_ns": _WALL_NS,
                            "pid": process.pid if process else None,
                        },
                        FaultEvent,
                    )
                )

    def starved(
        self,
        t: float,
        process: str,
        until: float,
        *,
        waited: float = 0.9,
        ran: float = 0.05,
        own: float = 0.1,
        stolen: float = 0.0,
    ) -> None:
        """A process waited for a core, in samples of half a second."""
        for number in range(round((until - t) / _SAMPLE_S)):
            since = t + number * _SAMPLE_S
            self.scheduling.append(
                SchedulingSample(
                    from_ns=at(since),
                    t_ns=at(since + _SAMPLE_S),
                    own=own,
                    others=1 - own - stolen,
                    stolen=stolen,
                    waits={process: Wait(waited=waited, ran=ran)},
                )
            )

    def write(self, path: Path) -> RunFolder:
        """Write the folder of the run and return it."""
        folder = RunFolder(path)
        folder.create()
        scenario = Scenario(
            workload="jobs",
            nemesis="none",
            seed=1,
            origin_ns=_ORIGIN_NS,
            host=_HOST,
            boot=_BOOT,
            plan=self._plan,
        )
        write_scenario(folder.scenario, scenario)
        write_lines(folder.history, self._history())
        write_lines(folder.deaths, self.deaths)
        write_lines(folder.faults, self.faults)
        folder.hand_backs.write_bytes(
            b"".join(msgspec.json.encode(entry) + b"\n" for entry in self.hand_backs)
        )
        if self.scheduling:
            write_lines(folder.scheduling, self.scheduling)
        for number, process in enumerate(self.processes):
            records = sorted(process.records, key=lambda record: record.t_ns)
            file = folder.attempts / f"{_BOOT[:8]}-{process.pid}-{number:06}.jsonl"
            file.write_bytes(b"".join(encode_record(record) for record in records))
        return folder

    def _history(self) -> list[Op]:
        ordered = sorted(self.ops, key=lambda op: op[0])
        return [
            Op(index=index, process=client, type=type_, f=f, value=value, time_ns=at(t))
            for index, (t, type_, client, f, value) in enumerate(ordered)
        ]

    def _process(self, worker: str) -> NotedProcess:
        if worker not in self.alive:
            self.born(worker)
        return self.alive[worker]

    def _record(
        self,
        t: float,
        process: NotedProcess,
        event: EventName,
        job: str,
        run: str | None,
        attempt: int,
        lease: str | None,
        *,
        outcome: Outcome | None = None,
        cause: str | None = None,
        attempts: int | None = None,
        ran: bool | None = None,
        digest: str | None = None,
    ) -> None:
        process.records.append(
            AttemptRecord(
                v=1,
                e=event,
                t_ns=at(t),
                wall_ns=_WALL_NS + at(t),
                job=job,
                run=run,
                attempt=attempt,
                host=_HOST,
                boot=_BOOT,
                pid=process.pid,
                worker=process.name,
                lease=lease,
                code=process.code,
                outcome=outcome,
                cause=cause,
                attempts=attempts,
                ran=ran,
                digest=digest,
            )
        )
