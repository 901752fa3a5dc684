"""What a worker says about its jobs, for people: a line when one begins, a line when it ends.

Only a worker that is not quiet listens; the others have no listener, and pay nothing.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Final

from .application import Application
from .events import AttemptEnded, AttemptStarting, JobGaveUp

STANDARD_OUTPUT: Final = 1


class Narration:
    """Prints the jobs of one worker.

    Args:
        write: Takes one line, its newline included.
        wall_ns: The time of day, nanoseconds since 1970.
        now_ns: The monotonic clock, nanoseconds.
    """

    def __init__(
        self,
        write: Callable[[str], None],
        wall_ns: Callable[[], int] = time.time_ns,
        now_ns: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        self._write = write
        self._wall_ns = wall_ns
        self._now_ns = now_ns
        self._began_ns = 0

    def listen(self, app: Application) -> None:
        """Hear of the jobs that this process runs."""
        app.listen(AttemptStarting, self._began)
        app.listen(AttemptEnded, self._ended)
        app.listen(JobGaveUp, self._gave_up)

    def _began(self, event: AttemptStarting) -> None:
        self._began_ns = self._now_ns()
        self._say(event.name, event.job_id, event.attempt, "begins")

    def _ended(self, event: AttemptEnded) -> None:
        took_ms = (self._now_ns() - self._began_ns) / 1e6
        outcome = event.outcome.value.replace("_", " ")
        self._say(event.name, event.job_id, event.attempt, f"{outcome} {took_ms:.1f} ms")

    def _gave_up(self, event: JobGaveUp) -> None:
        # What ran has had its line, and says in it how it ended.
        if not event.ran:
            cause = event.cause.value.replace("_", " ")
            self._say("-", event.job_id, event.attempt, f"given up, {cause}")

    def _say(self, name: str, job_id: str, attempt: int, what: str) -> None:
        at = datetime.fromtimestamp(self._wall_ns() / 1e9, UTC)
        stamp = at.isoformat(timespec="milliseconds").replace("+00:00", "Z")
        self._write(f"{stamp} {_word(name)} {_word(job_id)} attempt {attempt} {what}\n")


def write_line(line: str) -> None:
    """Write a line to standard output at once; one that cannot be written stops nobody's work."""
    try:
        os.write(STANDARD_OUTPUT, line.encode("utf-8", "backslashreplace"))
    except OSError:
        return


def _word(text: str) -> str:
    """Return a name that cannot make another line."""
    return text if text.isprintable() else ascii(text)
