"""Judges a synthetic history of a million attempts, and prints wall time and peak memory.

`python -m benchmarks.checker [ATTEMPTS]`. The history is legal: 32 workers, batches of four, jobs
that throw once, jobs that are given up, 20 killed workers whose jobs are handed back. It is written
to a scratch folder first (about 2.5 GB for a million attempts), then judged by a fresh interpreter.
"""

from __future__ import annotations

import json
import os
import random
import resource
import subprocess
import sys
import tempfile
import time
import zlib
from heapq import heappop, heappush
from pathlib import Path
from typing import Final

import msgspec

from atleastonce.checkers.attempts import check_attempts
from atleastonce.checkers.contract import load_contract
from atleastonce.histories.attempts import RECORD_BYTES, payload_digest
from atleastonce.histories.deaths import Death
from atleastonce.histories.folder import RunFolder
from atleastonce.histories.lines import write_lines
from atleastonce.histories.ops import DRAIN, READ_DEAD_LETTERS, READ_FAILED_JOBS, Json, Op, OpType
from atleastonce.histories.scenario import Scenario, write_scenario

ATTEMPTS: Final = 1_000_000
WORKERS: Final = 32
PREFETCH: Final = 4
PARTITIONS: Final = 512
KILLS: Final = 20
_BOOT: Final = "b007b007-0000-4000-8000-000000000000"
_ORIGIN_NS: Final = 10**15
_WALL_NS: Final = 1_790_000_000 * 10**9
_JOB_NS: Final = 10_000_000
_STEP_NS: Final = 300_000
_DIGEST: Final = payload_digest({})
_REST: Final = (
    '"v":1,"e":"%s","t_ns":%d,"wall_ns":%d,"job":"%s","run":%s,"attempt":%d,"host":"here",'
    f'"boot":"{_BOOT}","pid":%d,"worker":"w%d","lease":"%s","code":"v1"%s}}'
)
_INVOKE: Final = (
    '{"index":%d,"process":%d,"type":"invoke","f":"dispatch","value":{"job":"%s","kind":"short",'
    '"queue":"jobs","partition":"p-%04d","tries":3,"backoff_s":[0.0],"timeout_s":5.0,"delay_s":0.0,'
    f'"not_before_ns":null,"digest":"{_DIGEST}","resend":false}},'
    '"time_ns":%d,"node":"n1","error":null,"v":1}\n'
)
_OK: Final = (
    '{"index":%d,"process":%d,"type":"ok","f":"dispatch","value":{"status":"queued","offset":%d},'
    '"time_ns":%d,"node":"n1","error":null,"v":1}\n'
)


class _Worker:
    def __init__(self, folder: Path, name: int, pid: int, now_ns: int):
        self.name = name
        self.pid = pid
        self.now_ns = now_ns
        self.records = 0
        path = folder / f"{_BOOT[:8]}-{pid}-{now_ns}.jsonl"
        self.file = path.open("wb", buffering=1 << 20)

    def write(self, event: str, job: str, run: str | None, attempt: int, rest: str = "") -> None:
        self.now_ns += _STEP_NS
        self.records += 1
        text = _REST % (
            event,
            self.now_ns,
            self.now_ns + _WALL_NS,
            job,
            f'"{run}"' if run else "null",
            attempt,
            self.pid,
            self.name,
            f"{self.pid:08x}-1ea5-4000-8000-{self.records // 16:012x}",
            rest,
        )
        data = text.encode()
        line = b'{"crc":"%08x",' % zlib.crc32(data) + data
        self.file.write(line.ljust(RECORD_BYTES - 1) + b"\n")


def generate(path: Path, attempts: int, seed: int = 7) -> None:
    """Write a legal history with so many attempts, about 20 µs each."""
    entropy = random.Random(seed)
    folder = RunFolder(path)
    folder.create()
    waiting: list[tuple[int, str, int]] = []
    jobs: list[str] = []
    letters: list[str] = []
    deaths: list[Death] = []
    workers = [_Worker(folder.attempts, n, 1000 + n, _ORIGIN_NS + n) for n in range(WORKERS)]
    kill_every = attempts // (KILLS + 1)
    done = 0
    while done < attempts or waiting:
        worker = min(workers, key=lambda worker: worker.now_ns)
        batch: list[tuple[str, int]] = []
        while len(batch) < PREFETCH:
            if waiting and waiting[0][0] < worker.now_ns:
                _, job, attempt = heappop(waiting)
                batch.append((job, attempt))
            elif done >= attempts:
                break
            else:
                jobs.append(f"{len(jobs):08x}-0b00-4000-8000-{entropy.getrandbits(48):012x}")
                batch.append((jobs[-1], 1))
        if not batch:
            worker.now_ns += _JOB_NS
            continue
        for job, attempt in batch:
            worker.write("prefetched", job, None, attempt)
        due = done // kill_every != (done + len(batch)) // kill_every and len(deaths) < KILLS
        if due and all(attempt == 1 for _, attempt in batch):
            killed, _ = batch[0]
            worker.write("started", killed, f"{done:08x}-4000-4000-8000-{worker.pid:012x}", 1)
            worker.file.close()
            deaths.append(_death(worker))
            ready_ns = worker.now_ns + 5_000_000
            for job, number in [(killed, 2), *batch[1:]]:
                heappush(waiting, (ready_ns, job, number))
            born = _Worker(folder.attempts, worker.name, 2000 + len(deaths), worker.now_ns + 10**7)
            workers[workers.index(worker)] = born
            done += 1
            continue
        for job, attempt in batch:
            done += 1
            _run(worker, job, attempt, done, entropy, waiting, letters)
    for worker in workers:
        worker.file.close()
    end_ns = max(worker.now_ns for worker in workers)
    _write_rest(folder, jobs, letters, deaths, end_ns)


def _run(
    worker: _Worker,
    job: str,
    attempt: int,
    number: int,
    entropy: random.Random,
    waiting: list[tuple[int, str, int]],
    letters: list[str],
) -> None:
    run = f"{number:08x}-4000-4000-8000-{worker.pid:012x}"
    fate = entropy.random()
    worker.write("started", job, run, attempt)
    worker.now_ns += _JOB_NS
    threw = fate < (0, 0.05, 0.2, 1.0)[attempt]
    error = ',"outcome":"threw","error":"BadJobError: this job fails"'
    worker.write("ended", job, run, attempt, error if threw else ',"outcome":"completed"')
    worker.write("acked", job, run, attempt)
    if threw and attempt < 3:
        heappush(waiting, (worker.now_ns, job, attempt + 1))
    elif threw:
        rest = f',"cause":"exception","attempts":{attempt},"ran":true,"digest":"{_DIGEST}"'
        worker.write("gave_up", job, run, attempt, rest)
        letters.append(job)


def _death(worker: _Worker) -> Death:
    return Death(
        t_ns=worker.now_ns + 1_000_000,
        wall_ns=_WALL_NS,
        host="here",
        boot=_BOOT,
        pid=worker.pid,
        status=9,
        signal=9,
        role="worker",
    )


def _write_rest(
    folder: RunFolder, jobs: list[str], letters: list[str], deaths: list[Death], end_ns: int
) -> None:
    with folder.history.open("w", buffering=1 << 20) as file:
        start_ns = _ORIGIN_NS - 10**12
        for number, job in enumerate(jobs):
            p, offset = number % PARTITIONS, number // PARTITIONS
            t_ns = start_ns + number * 100_000
            file.write(_INVOKE % (2 * number, number % 8, job, p, t_ns))
            file.write(_OK % (2 * number + 1, number % 8, offset, t_ns + 50_000))
        stored: Json = {"jobs": [[job, _DIGEST, "exception"] for job in letters]}
        values: dict[str, Json] = {
            DRAIN: {"pending": 0},
            READ_DEAD_LETTERS: stored,
            READ_FAILED_JOBS: stored,
        }
        index = 2 * len(jobs)
        for f, value in values.items():
            steps: tuple[tuple[OpType, Json], ...] = (("invoke", None), ("ok", value))
            for type_, told in steps:
                op = Op(index=index, process=99, type=type_, f=f, value=told, time_ns=end_ns)
                file.write(msgspec.json.encode(op).decode() + "\n")
                index += 1
    write_lines(folder.deaths, deaths)
    scenario = Scenario(
        workload="jobs", nemesis="none", seed=7, origin_ns=_ORIGIN_NS, host="here", boot=_BOOT
    )
    write_scenario(folder.scenario, scenario)


def judge(path: Path) -> dict[str, object]:
    """Judge a run in this process; return wall seconds and peak memory (MiB)."""
    begun = time.perf_counter()
    contract = load_contract(workers=WORKERS, prefetch=PREFETCH)
    records = RunFolder(path).read()
    read_s = time.perf_counter() - begun
    verdict = check_attempts(records, contract)
    wall_s = time.perf_counter() - begun
    own = resource.getrusage(resource.RUSAGE_SELF)
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return {
        "valid": verdict.valid,
        "attempts": verdict.strength["attempts"],
        "violations": {n: r.violations for n, r in verdict.rules.items() if r.violations},
        "reasons": verdict.reasons,
        "read_s": round(read_s, 2),
        "wall_s": round(wall_s, 2),
        "cpu_s": round(sum((own.ru_utime, own.ru_stime, children.ru_utime, children.ru_stime)), 2),
        "peak_mib": own.ru_maxrss // 1024,
        "largest_child_peak_mib": children.ru_maxrss // 1024,
    }


def measure(attempts: int = ATTEMPTS) -> dict[str, object]:
    """Generate a history, judge it in a fresh interpreter, and return the figures."""
    with tempfile.TemporaryDirectory(prefix="atleastonce-bench-") as scratch:
        generate(Path(scratch), attempts)
        command = [sys.executable, "-m", "benchmarks.checker", "--judge", scratch]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as judge_:
            peak_kib = 0
            while judge_.poll() is None:
                peak_kib = max(peak_kib, _resident_kib(judge_.pid))
                time.sleep(0.02)
            told = judge_.stdout.read() if judge_.stdout else ""
    figures: dict[str, object] = json.loads(told)
    figures["peak_mib_of_all_processes"] = peak_kib // 1024
    return figures


def _resident_kib(pid: int) -> int:
    """Resident memory of a process and its children, mapped files left out."""
    total = 0
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        status = Path(f"/proc/{pid}/status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return 0
    for line in status.splitlines():
        if line.startswith("RssAnon:"):
            total += int(line.split()[1])
    return total + sum(_resident_kib(int(child)) for child in children)


def main() -> None:
    """Print the figures of one history."""
    if sys.argv[1:2] == ["--judge"]:
        print(json.dumps(judge(Path(sys.argv[2]))))
        return
    attempts = int(sys.argv[1]) if len(sys.argv) > 1 else ATTEMPTS
    print(f"checker: {attempts} attempts, {len(os.sched_getaffinity(0))} cores")
    for name, figure in measure(attempts).items():
        print(f"  {name}: {figure}")


if __name__ == "__main__":
    main()
