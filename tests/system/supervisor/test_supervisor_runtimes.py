"""How long jobs take: what a worker writes, and what of it counts."""

from __future__ import annotations

from pathlib import Path
from typing import cast

from atleastonce.system.jobs.runtimes import Runtimes, RuntimeWriter, read_runtimes
from atleastonce.system.jobs.settings import WorkerSettings
from atleastonce.system.supervisor.core.pool import Pool, RestartPolicy
from atleastonce.system.supervisor.crew import Crew
from atleastonce.system.supervisor.fork_link import ForkLink
from atleastonce.system.supervisor.runtimes import RuntimeReader
from atleastonce.system.supervisor.worker_handle import Worker

S = 1_000_000


def worker(directory: Path, pid: int) -> Worker:
    settings = WorkerSettings(queue="mail", endpoints=(("h", 1),), state_dir=str(directory))
    crew = Crew("pool/mail", Pool(1, RestartPolicy(1, 1, 1)), settings)
    return Worker(crew, 0, cast(ForkLink, None), pid, -1, 0)


def test_what_is_written_can_be_read_and_a_new_process_begins_anew(tmp_path: Path) -> None:
    assert read_runtimes(tmp_path, 7) == Runtimes()
    writer = RuntimeWriter(str(tmp_path), 7)
    assert read_runtimes(tmp_path, 7) == Runtimes()
    writer.note(0.5)
    writer.note(1.5)
    writer.close()
    assert read_runtimes(tmp_path, 7) == Runtimes(2, 2 * S)
    RuntimeWriter(str(tmp_path), 7).close()
    assert read_runtimes(tmp_path, 7) == Runtimes()


def test_the_average_is_over_what_is_not_too_old(tmp_path: Path) -> None:
    reader, one = RuntimeReader(tmp_path, 300 * S), worker(tmp_path, 7)
    assert reader.runtime_us(0, one.crew) is None
    writer = RuntimeWriter(str(tmp_path), 7)
    writer.note(4)
    reader.look(0, [one])
    assert reader.runtime_us(0, one.crew) == 4 * S
    writer.note(1)
    writer.note(1)
    reader.look(100 * S, [one])
    assert reader.runtime_us(100 * S, one.crew) == 2 * S
    assert reader.runtime_us(301 * S, one.crew) == S
    assert reader.runtime_us(401 * S, one.crew) is None
    writer.close()


def test_a_dead_workers_file_goes_and_what_it_told_stays(tmp_path: Path) -> None:
    reader, one = RuntimeReader(tmp_path, 300 * S), worker(tmp_path, 7)
    writer = RuntimeWriter(str(tmp_path), 7)
    writer.note(3)
    writer.close()
    reader.look(0, [one])
    reader.look(S, [])
    assert list(tmp_path.iterdir()) == []
    assert reader.runtime_us(S, one.crew) == 3 * S
