"""The hand-back journal: what the broker is owed if a worker dies now.

Two files of a worker, named by its pid. The *plan*, overwritten once per batch, says how each
delivery would be handed back: its ack, and a copy under an id decided then. The *state*,
overwritten in place by one write, holds the batch's lease and one code per delivery. Writing order
of a new batch: shorten the old state to its header, write the plan, write the first state; a state
that does not fit its plan is refused. Nothing is synced: it only has to survive the death of the
process.

State file, ASCII, fixed length for a batch: request id of the pop whose answer is not dealt with
(32 characters, blank when there is none), index of the running delivery (4 characters, blank when
none), CLOCK_MONOTONIC nanoseconds when it started (20 digits), milliseconds that the retry on the
wire pauses (10 digits), and, after this header of 66 bytes, the lease id, a blank, the codes, a
newline.
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
POP_ID_BYTES: Final = 32
HEADER_BYTES: Final = POP_ID_BYTES + 34
DELAY_MS_MAX: Final = 10**10 - 1

_READ_BYTES: Final = 1 << 16
_NO_POP: Final = b" " * POP_ID_BYTES
_RUNNING: Final = slice(POP_ID_BYTES, POP_ID_BYTES + 4)
_SINCE: Final = slice(_RUNNING.stop, _RUNNING.stop + 20)
_DELAY: Final = slice(_SINCE.stop, HEADER_BYTES)
_NOTHING: Final = Code.NOTHING.value.encode()
_CODES: Final = frozenset(code.value for code in Code)


@dataclass(frozen=True, slots=True)
class WorkerDebts:
    """What a worker's journal says.

    Attributes:
        pop_id: Request id of a pop that was sent and whose answer was not yet read and planned.
        running: Id of the job that runs, None when none does.
        running_since_ns: CLOCK_MONOTONIC when it started; 0 when none runs.
        prefetched: Deliveries of the batch that have not started and are owed.
        debts: What is owed, by lease; empty when nothing is, or when the journal was refused.
        refused: Why the journal was refused, None when it was not.
    """

    pop_id: str | None = None
    running: str | None = None
    running_since_ns: int = 0
    prefetched: int = 0
    debts: tuple[Debt, ...] = ()
    refused: str | None = None

    @property
    def popping(self) -> bool:
        """Whether the answer of a pop may have been unread."""
        return self.pop_id is not None


_PLAN_ENCODER = msgspec.json.Encoder()
_PLAN_DECODER = msgspec.json.Decoder(Plan)


class JournalWriter:
    """The worker's side. After an I/O error both files are deleted and nothing more is written."""

    def __init__(self, directory: str | Path, pid: int) -> None:
        """Start an empty journal for process `pid`, which must be the caller's."""
        self._plan_path = plan_path(directory, pid)
        self._state_path = state_path(directory, pid)
        self._pid = pid
        self._fd = -1
        self._plan_fd = -1
        self._plan_bytes = 0
        self._pop = _NO_POP
        self._tail = b""
        self._is_owed = False
        self.error: OSError | None = None
        try:
            self._fd = os.open(self._state_path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            os.ftruncate(self._fd, 0)
            os.pwrite(self._fd, _header(_NO_POP, None, 0), 0)
        except OSError as error:
            self._fail(error)

    @property
    def is_popping(self) -> bool:
        """Whether a pop was sent whose answer was not dealt with."""
        return self._pop != _NO_POP

    def set_pop(self, pop_id: str | None) -> None:
        """Say which pop is about to be sent, or that its answer was dealt with."""
        value = _NO_POP if pop_id is None else pop_id.encode()
        assert len(value) == POP_ID_BYTES, f"a pop's id of {len(value)} B"
        if value != self._pop:
            self._pop = value
            self._write(value)

    def begin(self, plan: Plan, codes: Sequence[Code], pop_id: str | None = None) -> None:
        """Replace the old batch by a new one.

        Args:
            plan: The new batch.
            codes: What is owed for each of its deliveries.
            pop_id: A pop whose answer is not dealt with; None when this batch was its answer.
        """
        if self._fd < 0 or os.getpid() != self._pid:
            return
        data = _PLAN_ENCODER.encode(plan)
        length = HEADER_BYTES + len(plan.lease) + len(codes) + 2
        try:
            os.ftruncate(self._fd, HEADER_BYTES)
            if len(data) > PLAN_BYTES_MAX or length > STATE_BYTES_MAX:
                raise OSError(f"plan of {len(data)} B or state of {length} B exceeds the limit")
            if self._plan_fd < 0:
                flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
                self._plan_fd = os.open(self._plan_path, flags, 0o600)
            # Nobody reads a plan beside a state that is only a header: it is replaced in place.
            written = os.pwrite(self._plan_fd, data, 0)
            if written != len(data):
                raise OSError(f"plan: {written} of {len(data)} B written")
            if written < self._plan_bytes:
                os.ftruncate(self._plan_fd, written)
            self._plan_bytes = written
        except OSError as error:
            self._fail(error)
            return
        self._pop = _NO_POP if pop_id is None else pop_id.encode()
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
        self._is_owed = line.strip(_NOTHING) != b""
        header = _header(self._pop, running, since_ns, retry_delay_ms)
        self._write(header + self._tail + line + b"\n")

    def withdraw(self) -> None:
        """Owe nothing from now on."""
        if self._fd < 0 or os.getpid() != self._pid:
            return
        self._is_owed = False
        try:
            os.ftruncate(self._fd, HEADER_BYTES)
            os.pwrite(self._fd, _header(self._pop, None, 0), 0)
        except OSError as error:
            self._fail(error)

    def close(self) -> None:
        """Write no more, and delete both files unless they still say what is owed."""
        if self._fd >= 0 and os.getpid() == self._pid:
            self._close_files()
            if not self._is_owed and self._pop == _NO_POP:
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
        self._close_files()
        self._delete()

    def _close_files(self) -> None:
        for fd in (self._fd, self._plan_fd):
            if fd >= 0:
                os.close(fd)
        self._fd = self._plan_fd = -1

    def _delete(self) -> None:
        for path in (self._state_path, self._plan_path):
            try:
                os.unlink(path)
            except FileNotFoundError:
                pass
            except OSError as error:
                self.error = error


def read_debts(directory: str | Path, name: int | str) -> WorkerDebts:
    """Read a worker's journal; of a dead worker it is final, of a living one a snapshot.

    Args:
        directory: Where it lies.
        name: The worker's pid, or what the journal was renamed to.

    Returns:
        What it says. A journal that does not hold together says why in `refused` and owes nothing.
    """
    try:
        state = _read(state_path(directory, name))
    except FileNotFoundError:
        return WorkerDebts()
    if len(state) < HEADER_BYTES:
        return WorkerDebts(refused=f"state of {len(state)} B is shorter than its header")
    pop_id = state[:POP_ID_BYTES].decode("ascii", "replace").strip() or None
    if len(state) == HEADER_BYTES:
        return WorkerDebts(pop_id)
    try:
        plan = _PLAN_DECODER.decode(_read(plan_path(directory, name)))
        debt, running, since_ns = _read_state(state, plan)
    except FileNotFoundError:
        return WorkerDebts(pop_id, refused="state without a plan")
    except (msgspec.DecodeError, ValueError) as error:
        return WorkerDebts(pop_id, refused=str(error))
    return WorkerDebts(
        pop_id=pop_id,
        running=running,
        running_since_ns=since_ns,
        prefetched=len(debt.unstarted),
        debts=(debt,) if debt.is_owed else (),
    )


def _read(path: str) -> bytes:
    """A whole file; a master reads one or two of every worker again and again."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        data = os.read(fd, _READ_BYTES)
        if len(data) < _READ_BYTES:
            return data
        pieces = [data]
        while data:
            data = os.read(fd, _READ_BYTES)
            pieces.append(data)
        return b"".join(pieces)
    finally:
        os.close(fd)


def delete_journal(directory: str | Path, name: int | str) -> None:
    """Delete a worker's journal, complete or not."""
    plan = plan_path(directory, name)
    for path in (state_path(directory, name), plan, plan + ".tmp"):
        Path(path).unlink(missing_ok=True)


def list_journals(directory: str | Path) -> list[str]:
    """Return the names of the journals in a directory that are more than a plan."""
    return sorted(path.stem for path in Path(directory).glob("*.state"))


def plan_path(directory: str | Path, name: int | str) -> str:
    """Where the plan of a journal is, whose name is its worker's pid."""
    return os.path.join(directory, f"{name}.plan")


def state_path(directory: str | Path, name: int | str) -> str:
    """Where the state of a journal is, whose name is its worker's pid."""
    return os.path.join(directory, f"{name}.state")


def _header(pop: bytes, running: int | None, since_ns: int, retry_delay_ms: int = 0) -> bytes:
    index = b"    " if running is None else b"%4d" % running
    return pop + index + b"%020d%010d" % (since_ns, min(retry_delay_ms, DELAY_MS_MAX))


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
    index = state[_RUNNING].strip()
    since_ns = int(state[_SINCE])
    retry_delay_ms = int(state[_DELAY])
    running = None
    if index:
        place = int(index)
        if not 0 <= place < len(plan.entries):
            raise ValueError(f"state runs delivery {place} of {len(plan.entries)}")
        running = plan.entries[place].job_id
    debt = Debt(plan, tuple(Code(code) for code in codes), retry_delay_ms)
    return debt, running, since_ns
