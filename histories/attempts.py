"""The attempt log: what happened to jobs, told by the processes that ran them.

One file per process incarnation, opened once; a record is one `write(2)` of one line of exactly
512 bytes that carries its own checksum, so that no record crosses a page and a killed writer can
tear only the last one.
"""

from __future__ import annotations

import hashlib
import os
import time
import zlib
from pathlib import Path
from typing import Final, Literal

import msgspec

from .errors import FORMAT_VERSION
from .host import this_host
from .ops import Json

RECORD_BYTES: Final = 512
_REMEMBERED_RUNS: Final = 4096
_PREFIX_BYTES: Final = len(b'{"crc":"00000000",')

EventName = Literal["prefetched", "started", "ended", "acked", "gave_up"]
Outcome = Literal["completed", "threw", "released", "failed", "timed_out"]
Durability = Literal["process", "host"]

EVENTS: Final[tuple[EventName, ...]] = ("prefetched", "started", "ended", "acked", "gave_up")
OUTCOMES: Final[tuple[Outcome, ...]] = ("completed", "threw", "released", "failed", "timed_out")


class AttemptRecord(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One record of the attempt log, without its checksum.

    Attributes:
        v: Format version.
        e: What happened.
        t_ns: CLOCK_MONOTONIC when it happened.
        wall_ns: Wall clock beside it.
        job: Id of the job.
        run: Id of the run within its process; None for `prefetched` and a `gave_up` without a run.
        attempt: Attempt number as the engine told it.
        host: Name of the host.
        boot: Boot id of the host.
        pid: The process.
        worker: Name of the worker.
        lease: Lease that the job was delivered under.
        code: Version of the code that this process runs.
        outcome: Of `ended`.
        error: Of `ended`, cut to fit.
        cause: Of `gave_up`.
        attempts: Of `gave_up`: attempts charged in all.
        ran: Of `gave_up`: whether this pickup ran.
        digest: Of `gave_up`: digest of the payload, see `payload_digest`.
    """

    v: int
    e: EventName
    t_ns: int
    wall_ns: int
    job: str
    run: str | None
    attempt: int
    host: str
    boot: str
    pid: int
    worker: str
    lease: str | None
    code: str
    outcome: Outcome | None = None
    error: str | None = None
    cause: str | None = None
    attempts: int | None = None
    ran: bool | None = None
    digest: str | None = None


def payload_digest(payload: Json) -> str:
    """Return the digest by which payloads are compared (32 hex digits of SHA-256)."""
    text = msgspec.json.encode(payload, order="deterministic")
    return hashlib.sha256(text).hexdigest()[:32]


def encode_record(record: AttemptRecord) -> bytes:
    """Return the 512 bytes of a record; `error` and `cause` are cut as needed.

    Raises:
        ValueError: The ids alone do not fit.
    """
    rest = _rest_of(record)
    while len(rest) + _PREFIX_BYTES + 1 > RECORD_BYTES:
        over = len(rest) + _PREFIX_BYTES + 1 - RECORD_BYTES
        record = _shortened(record, over)
        rest = _rest_of(record)
    return (
        b'{"crc":"%08x",%b' % (zlib.crc32(rest), rest.ljust(RECORD_BYTES - _PREFIX_BYTES - 1))
        + b"\n"
    )


def _rest_of(record: AttemptRecord) -> bytes:
    return msgspec.json.encode(record)[1:]


def _shortened(record: AttemptRecord, over: int) -> AttemptRecord:
    if record.error:
        return msgspec.structs.replace(
            record, error=record.error[: max(0, len(record.error) - over)]
        )
    if record.cause:
        return msgspec.structs.replace(
            record, cause=record.cause[: max(0, len(record.cause) - over)]
        )
    raise ValueError(f"the ids of job {record.job[:64]!r} leave no room in {RECORD_BYTES} bytes")


class AttemptLog:
    """Writes the attempt log of this process.

    The file `<boot8>-<pid>-<start_ns>.jsonl` is opened at the first record, and anew in a forked
    child, so that one file never holds two processes. Each call is one `write(2)`; the record is
    safe from the death of the process when the call returns, and from the death of the host with
    `durability="host"`. All calls raise OSError as the disk does and ValueError for ids too long.
    """

    def __init__(
        self, directory: Path | str, code: str, worker: str, durability: Durability = "process"
    ):
        self._directory = Path(directory)
        self._code = code[:24]
        self._worker = worker[:24]
        self._sync = durability == "host"
        host = this_host()
        self._host = host.name[:32]
        self._boot = host.boot
        self._pid = -1
        self._file = -1
        self._runs: dict[str, tuple[int, str | None]] = {}

    @property
    def directory(self) -> Path:
        """The folder that holds the files."""
        return self._directory

    def prefetched(self, job: str, attempt: int, lease: str | None) -> None:
        """The engine delivered a job that may start later in this process."""
        self._write("prefetched", job, None, attempt, lease)

    def started(self, job: str, run: str, attempt: int, lease: str | None) -> None:
        """The handler of a job is about to run."""
        if len(self._runs) >= _REMEMBERED_RUNS:
            del self._runs[next(iter(self._runs))]
        self._runs[run] = (attempt, lease)
        self._write("started", job, run, attempt, lease)

    def ended(self, job: str, run: str, outcome: Outcome, error: str | None = None) -> None:
        """The handler returned; the engine has not been told yet."""
        attempt, lease = self._runs[run]
        self._write("ended", job, run, attempt, lease, outcome=outcome, error=error)

    def acked(self, job: str, run: str) -> None:
        """The engine confirmed the end of a run."""
        attempt, lease = self._runs[run]
        self._write("acked", job, run, attempt, lease)

    def gave_up(
        self,
        job: str,
        run: str | None,
        cause: str,
        attempts: int,
        ran: bool,
        digest: str | None,
        lease: str | None = None,
    ) -> None:
        """The job was given up in this process, with (`ran`) or without a run of its own.

        `attempts` counts those used up; a pickup that did not run carried the number after it.
        """
        self._write(
            "gave_up",
            job,
            run if ran else None,
            attempts if ran else attempts + 1,
            lease,
            cause=cause,
            attempts=attempts,
            ran=ran,
            digest=digest,
        )

    def close(self) -> None:
        """Close the file; the next record would open a new one."""
        if self._file >= 0 and self._pid == os.getpid():
            os.close(self._file)
        self._file = -1
        self._pid = -1

    def _write(
        self,
        event: EventName,
        job: str,
        run: str | None,
        attempt: int,
        lease: str | None,
        *,
        outcome: Outcome | None = None,
        error: str | None = None,
        cause: str | None = None,
        attempts: int | None = None,
        ran: bool | None = None,
        digest: str | None = None,
    ) -> None:
        if self._pid != os.getpid():
            self._open()
        record = AttemptRecord(
            v=FORMAT_VERSION,
            e=event,
            t_ns=time.monotonic_ns(),
            wall_ns=time.time_ns(),
            job=job,
            run=run,
            attempt=attempt,
            host=self._host,
            boot=self._boot,
            pid=self._pid,
            worker=self._worker,
            lease=lease,
            code=self._code,
            outcome=outcome,
            error=_printable(error),
            cause=_printable(cause),
            attempts=attempts,
            ran=ran,
            digest=digest,
        )
        line = encode_record(record)
        written = os.write(self._file, line)
        if written != len(line):
            raise OSError(f"short write in {self._directory}: {written} of {len(line)} bytes")
        if self._sync:
            os.fdatasync(self._file)

    def _open(self) -> None:
        if self._file >= 0:
            os.close(self._file)
            self._runs.clear()
        self._pid = os.getpid()
        self._directory.mkdir(parents=True, exist_ok=True)
        name = f"{self._boot[:8]}-{self._pid}-{time.monotonic_ns()}.jsonl"
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        self._file = os.open(self._directory / name, flags, 0o644)


def _printable(text: str | None) -> str | None:
    """Cut early (a long traceback costs nothing) and replace what UTF-8 cannot carry."""
    if text is None:
        return None
    return text[:RECORD_BYTES].encode("utf-8", "replace").decode("utf-8")
