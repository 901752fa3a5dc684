"""The hand-back journal: what the broker is owed if a worker dies now.

Two files of a worker, named by its pid. The *plan*, written once per batch, says how each delivery
would be handed back: its ack, and a copy under an id decided then. The *state*, overwritten in
place by one write, holds the batch's lease and one code per delivery. Writing order of a new batch:
shorten the old state to its header, write the plan, write the first state; a state that does not
fit its plan is refused. Nothing is synced: it only has to survive the death of the process.

State file, ASCII, fixed length for a batch: popping `0`/`1`, index of the running delivery (4
characters, blank when none), CLOCK_MONOTONIC nanoseconds when it started (20 digits), milliseconds
that the retry on the wire pauses (10 digits), and, after this header of 35 bytes, the lease id, a
blank, the codes, a newline.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec

from .debts import Code, Debt, Plan

PLAN_BYTES_MAX: Final = 16 << 20
STATE_BYTES_MAX: Final = 4096
HEADER_BYTES: Final = 35
DELAY_MS_MAX: Final = 10**10 - 1

_CODES: Final = frozenset(code.value for code in Code)


@dataclass(frozen=True, slots=True)
class WorkerDebts:
    """What a worker's journal says.

    Attributes:
        popping: A pop was sent whose answer was not yet read and planned.
        running: Id of the job that runs, None when none does.
        running_since_ns: CLOCK_MONOTONIC when it started; 0 when none runs.
        prefetched: Deliveries of the batch that have not started and are owed.
        debts: What is owed, by lease; empty when nothing is, or when the journal was refused.
        refused: Why the journal was refused, None when it was not.
    """

    popping: bool = False
    running: str | None = None
    running_since_ns: int = 0
    prefetched: int = 0
    debts: tuple[Debt, ...] = ()
    refused: str | None = None


_PLAN_ENCODER = msgspec.json.Encoder()
_PLAN_DECODER = msgspec.json.Decoder(Plan)


class JournalWriter:
    """The worker's side. After an I/O error both files are deleted and nothing more is written."""

    def __init__(self, directory: str | Path, pid: int) -> None:
        """Start an empty journal for process `pid`, which must be the caller's."""
        self._plan_path = plan_path(directory, pid)
        self._temporary = self._plan_path + ".tmp"
        self._state_path = state_path(directory, pid)
        self._pid = pid
        self._fd = -1
        self._popping = b"0"
        self._tail = b""
        self.error: OSError | None = None
        try:
            self._fd = os.open(self._state_path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            os.ftruncate(self._fd, 0)
            os.pwrite(self._fd, _header(b"0", None, 0), 0)
        except OSError as error:
            self._fail(error)

    def set_popping(self, popping: bool) -> None:
        """Say that a pop is about to be sent, or that its answer was dealt with."""
        value = b"1" if popping else b"0"
        if value == self._popping:
            return
        self._popping = value
        self._write(value)

    def begin(self, plan: Plan, codes: Sequence[Code], popping: bool = False) -> None:
        """Replace the old batch by a new one.

        Args:
            plan: The new batch.
            codes: What is owed for each of its deliveries.
            popping: Whether another pop is on the wire meanwhile.
        """
        if self._fd < 0 or os.getpid() != self._pid:
            return
        data = _PLAN_ENCODER.encode(plan)
        length = HEADER_BYTES + len(plan.lease) + len(codes) + 2
        try:
            os.ftruncate(self._fd, HEADER_BYTES)
            if len(data) > PLAN_BYTES_MAX or length > STATE_BYTES_MAX:
                raise OSError(f"plan of {len(data)} B or state of {length} B exceeds the limit")
            fd = os.open(
                self._temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600
            )
            try:
                written = os.write(fd, data)
            finally:
                os.close(fd)
            if written != len(data):
                raise OSError(f"plan: {written} of {len(data)} B written")
            # Renaming over a file makes some file systems flush it; a free name does not.
            if self._tail:
                os.unlink(self._plan_path)
            os.rename(self._temporary, self._plan_path)
        except OSError as error:
            self._fail(error)
            return
        self._popping = b"1" if popping else b"0"
        self._tail = plan.lease.encode() + b" "
        self.write(codes, None, 0)

    def write(
        self, codes: Sequence[Code], running: int | None, since_ns: int, retry_delay_ms: int = 0
    ) -> None:
        """Overwrite the state of the batch.

        Args:
            codes: What is owed for each delivery, as many as the plan has.
            running: Index of the delivery that runs.
            since_ns: CLOCK_MONOTONIC when it started.
            retry_delay_ms: Pause of the retry that goes out next.
        """
        assert self._tail or self._fd < 0, "a state without a plan"
        line = "".join(codes).encode()
        header = _header(self._popping, running, since_ns, retry_delay_ms)
        self._write(header + self._tail + line + b"\n")

    def withdraw(self) -> None:
        """Owe nothing from now on."""
        if self._fd < 0 or os.getpid() != self._pid:
            return
        try:
            os.ftruncate(self._fd, HEADER_BYTES)
            os.pwrite(self._fd, _header(self._popping, None, 0), 0)
        except OSError as error:
            self._fail(error)

    def close(self) -> None:
        """Delete both files; nothing is owed."""
        if self._fd >= 0 and os.getpid() == self._pid:
            os.close(self._fd)
            self._fd = -1
            self._delete()

    def _write(self, data: bytes) -> None:
        if self._fd < 0 or os.getpid() != self._pid:
            return
        try:
            written = os.pwrite(self._fd, data, 0)
            if written != len(data):
                raise OSError(f"state: {written} of {len(data)} B written")
        except OSError as error:
            self._fail(error)

    def _fail(self, error: OSError) -> None:
        self.error = error
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
        self._delete()

    def _delete(self) -> None:
        for path in (self._state_path, self._plan_path, self._temporary):
            try:
                os.unlink(path)
            except FileNotFoundError:
                pass
            except OSError as error:
                self.error = error


def read_debts(directory: str | Path, pid: int) -> WorkerDebts:
    """Read a worker's journal; of a dead worker it is final, of a living one a snapshot.

    Returns:
        What it says. A journal that does not hold together says why in `refused` and owes nothing.
    """
    try:
        state = Path(state_path(directory, pid)).read_bytes()
    except FileNotFoundError:
        return WorkerDebts()
    if len(state) < HEADER_BYTES:
        return WorkerDebts(refused=f"state of {len(state)} B is shorter than its header")
    popping = state[:1] == b"1"
    if len(state) == HEADER_BYTES:
        return WorkerDebts(popping=popping)
    try:
        plan = _PLAN_DECODER.decode(Path(plan_path(directory, pid)).read_bytes())
        debt, running, since_ns = _read_state(state, plan)
    except FileNotFoundError:
        return WorkerDebts(popping=popping, refused="state without a plan")
    except (msgspec.DecodeError, ValueError) as error:
        return WorkerDebts(popping=popping, refused=str(error))
    return WorkerDebts(
        popping=popping,
        running=running,
        running_since_ns=since_ns,
        prefetched=len(debt.unstarted),
        debts=(debt,) if debt.is_owed else (),
    )


def delete_journal(directory: str | Path, pid: int) -> None:
    """Delete a worker's journal, complete or not."""
    plan = plan_path(directory, pid)
    for path in (state_path(directory, pid), plan, plan + ".tmp"):
        Path(path).unlink(missing_ok=True)


def delete_all_journals(directory: str | Path) -> None:
    """Delete every journal; a master does so at start, before any worker lives."""
    for pattern in ("*.plan", "*.plan.tmp", "*.state"):
        for path in Path(directory).glob(pattern):
            path.unlink(missing_ok=True)


def plan_path(directory: str | Path, pid: int) -> str:
    """Where process `pid` keeps its plan."""
    return os.path.join(directory, f"{pid}.plan")


def state_path(directory: str | Path, pid: int) -> str:
    """Where process `pid` keeps its state."""
    return os.path.join(directory, f"{pid}.state")


def _header(popping: bytes, running: int | None, since_ns: int, retry_delay_ms: int = 0) -> bytes:
    index = b"    " if running is None else b"%4d" % running
    return popping + index + b"%020d%010d" % (since_ns, min(retry_delay_ms, DELAY_MS_MAX))


def _read_state(state: bytes, plan: Plan) -> tuple[Debt, str | None, int]:
    lease = plan.lease.encode()
    expected = HEADER_BYTES + len(lease) + len(plan.entries) + 2
    if len(state) != expected:
        raise ValueError(f"state of {len(state)} B where its plan wants {expected}")
    rest = state[HEADER_BYTES:]
    if not rest.startswith(lease + b" ") or not rest.endswith(b"\n"):
        raise ValueError("state of another lease than its plan")
    codes = rest[len(lease) + 1 : -1].decode("ascii", "replace")
    unknown = set(codes) - _CODES
    if unknown:
        raise ValueError(f"state with unknown codes {sorted(unknown)}")
    index = state[1:5].strip()
    since_ns = int(state[5:25])
    retry_delay_ms = int(state[25:HEADER_BYTES])
    running = None
    if index:
        place = int(index)
        if not 0 <= place < len(plan.entries):
            raise ValueError(f"state runs delivery {place} of {len(plan.entries)}")
        running = plan.entries[place].job_id
    debt = Debt(plan, tuple(Code(code) for code in codes), retry_delay_ms)
    return debt, running, since_ns
