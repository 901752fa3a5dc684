"""What a worker that is not quiet prints about its jobs."""

from __future__ import annotations

from atleastonce.system.jobs.application import Application
from atleastonce.system.jobs.events import (
    AttemptEnded,
    AttemptStarting,
    Cause,
    Event,
    JobGaveUp,
    Outcome,
)
from atleastonce.system.jobs.narration import Narration


def _told(*events: Event) -> list[str]:
    lines: list[str] = []
    clock = iter(range(0, 10**12, 12_340_000))
    app = Application()
    Narration(lines.append, lambda: 1_700_000_000_123_000_000, lambda: next(clock)).listen(app)
    for event in events:
        app.notify(event)
    return lines


def _starting(name: str = "mail.Send", job_id: str = "j1") -> AttemptStarting:
    return AttemptStarting(job_id, name, 2, "run", "lease", {})


def _ended(outcome: Outcome) -> AttemptEnded:
    return AttemptEnded("j1", "mail.Send", 2, "run", "lease", outcome, None)


def test_a_job_has_one_line_when_it_begins_and_one_when_it_ends() -> None:
    assert _told(_starting(), _ended(Outcome.COMPLETED)) == [
        "2023-11-14T22:13:20.123Z mail.Send j1 attempt 2 begins\n",
        "2023-11-14T22:13:20.123Z mail.Send j1 attempt 2 completed 12.3 ms\n",
    ]


def test_the_line_of_an_end_says_how_it_ended() -> None:
    ends = [_told(_starting(), _ended(outcome))[1].split(" attempt 2 ")[1] for outcome in Outcome]
    assert [end.partition(" 12.3 ms")[0] for end in ends] == [
        outcome.value.replace("_", " ") for outcome in Outcome
    ]


def test_a_job_that_is_given_up_without_a_run_has_a_line_and_one_that_ran_has_no_third() -> None:
    gave_up = {
        ran: JobGaveUp("j1", Cause.MAX_ATTEMPTS, 4, 3, ran, "e", "d", "l") for ran in (True, False)
    }
    assert _told(gave_up[True]) == []
    (line,) = _told(gave_up[False])
    assert line.endswith(" - j1 attempt 4 given up, max attempts\n")


def test_a_name_cannot_make_a_line_of_its_own() -> None:
    (line,) = _told(_starting(name="a\nb", job_id="c\td"))
    assert (line.count("\n"), "\t" in line) == (1, False)
