"""Planted defects by name, all off by default, so that the checkers can be checked.

Each part that can misbehave receives a `Bugs` value and asks `"name" in bugs` at the one place
where the defect lives. Nothing else in the system knows which bugs exist.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

Bugs = frozenset[str]

NO_BUGS: Final[Bugs] = frozenset()


@dataclass(frozen=True, slots=True)
class Bug:
    """One planted defect.

    Attributes:
        name: What `--bug` takes.
        sentence: What goes wrong, in one sentence.
        rule: The rule or oracle that must name it.
        nemesis: The nemesis of `verify run` that brings it out; empty when only the simulator does.
        settings: `--set` pairs that the nemesis needs to bring it out.
        workload: The workload of `verify run` whose rule that is.
    """

    name: str
    sentence: str
    rule: str
    nemesis: str = ""
    settings: tuple[tuple[str, str], ...] = ()
    workload: str = "jobs"

    @property
    def is_simulated(self) -> bool:
        """Whether only the simulator's oracles are expected to see it."""
        return not self.nemesis


_ALL: Final = (
    Bug(
        "ack-before-fsync",
        "a node acknowledges entries that its disk has not synced yet",
        "lost",
        "kill-all",
        # A checkpoint would betray at boot that the log behind it is gone: such a node refuses.
        (("disk", "lossy"), ("checkpoint_ms", "3600000")),
    ),
    Bug(
        "commit-by-minority",
        "a leader counts its own copy alone as a majority, and sends copies with its heartbeats",
        "lost",
        "kill-leader",
        # What is acknowledged between two heartbeats is what its death loses.
        (("heartbeat_ms", "200"),),
    ),
    Bug(
        "answer-by-log-index",
        "a deposed leader answers a request for a log index that another leader filled",
        "two-winners",
        "pause-leader",
        (),
        "claim",
    ),
    Bug(
        "dedup-lost-on-failover",
        "a new leader forgets which pushes it has already stored",
        "duplicate-dispatch",
        "kill-leader",
    ),
    Bug(
        "lease-ignored-on-pop",
        "a pop takes a partition that another worker holds",
        "overlap",
        "none",
    ),
    Bug(
        "dead-letter-without-payload",
        "a dead letter is filed before its message's payload was read",
        "store-mismatch",
        "none",
    ),
    Bug(
        "ack-forgotten-on-failover",
        "a new leader does not know which acks were carried out, and refuses their repeats",
        "ack-not-recalled",
        "kill-leader",
        # Partitions in which nothing else is released before the repeat comes.
        (("partitions", "64"), ("reack", "0.6")),
        "queue",
    ),
    Bug(
        "lease-by-time-of-day",
        "leases run by the leader's time of day, and end when that is moved",
        "lease-overlap",
        "bump-clock",
        (("hold", "0.2"),),
        "queue",
    ),
    Bug(
        "stamp-goes-back",
        "a leader stamps entries by its own time of day, also before the last entry's stamp",
        "invariant",
        "bump-clock",
        (),
        "queue",
    ),
    Bug(
        "retry-by-time-of-day",
        "a worker asks for a job to come back at an instant of its own time of day",
        "early",
        "bump-supervisor-clock",
    ),
    Bug(
        "damage-taken-for-torn-tail",
        "a node takes damage in the middle of its log for a torn tail, and cuts what follows",
        "lost",
        "flip-log",
        # A node whose checkpoint is further than the cut refuses its own log, and loses nothing.
        (("checkpoint_ms", "3600000"),),
        "queue",
    ),
    Bug(
        "wedged-by-a-refusal",
        "a leader without a quorum for a second waits for a change of leadership that never comes",
        "stalled",
        "pause-leader",
        # A pause that is shorter than an election timeout leaves the leader what it was.
        (("election_ms_min", "4000"), ("election_ms_max", "8000")),
        "queue",
    ),
    Bug(
        "orphaned-claims",
        "a waiting pop whose client has hung up still claims what comes, and nobody takes it back",
        "claim-left-behind",
        "none",
        (("hang_up", "0.4"),),
        "queue",
    ),
    Bug(
        "proposals-overtake",
        "entries that were planned one after the other are proposed in any order",
        "invariant",
        "none",
        (("clients_per_node", "8"),),
        "queue",
    ),
    Bug(
        "retry-ack-on-graceful-stop",
        "a stopping worker gives unstarted jobs back by a retry ack, which charges them",
        "uncharged-hand-back",
        "term-supervisor",
        # A backlog, so that every worker has unstarted jobs in hand when it is asked to stop.
        (("share_long", "0.05"),),
    ),
    Bug(
        "crash-charges-prefetched",
        "nobody hands back the unstarted jobs of a dead worker",
        "uncharged-hand-back",
        "kill-worker",
    ),
    Bug(
        "hand-back-twice",
        "the jobs of a dead worker are handed back a second time, past the lease's fence",
        "completed-twice",
        "kill-worker",
    ),
    Bug(
        "hand-back-after-expiry",
        "the hand-back is sent after the lease has expired, without its fence",
        "completed-twice",
        "kill-worker",
    ),
    Bug(
        "async-ack-unwritten",
        "the ack of a finished job stays unwritten until the next job ends",
        "completed-twice",
        # All workers die at once, and nobody is left to hand back what the journals owe.
        "kill-supervisor",
        (("share_long", "0.03"),),
    ),
    Bug(
        "timeout-counts-as-crash",
        "a worker that ends because its job timed out opens the crash circuit",
        "pace",
        "none",
        # Timeouts must follow each other within the time that makes a worker count as stable.
        (
            ("job_timeout_s", "1"),
            ("share_long", "0"),
            ("share_overrun", "0.02"),
            ("stable_after_s", "12"),
            ("restart_backoff_max_s", "8"),
            ("drain_deadline_s", "35"),
        ),
    ),
    Bug(
        "pop-ahead-always",
        "a worker asks for its next batch ahead also when the last one was not full",
        "lane-pops",
        "trickle",
        (),
        "lane",
    ),
    Bug(
        "poison-left-alone",
        "a message that is no job is neither given up nor acknowledged",
        "lane-time",
        "poison-messages",
        (),
        "lane",
    ),
    Bug(
        "string-timeout-refused",
        "a worker that gets a job whose timeout is a number in a string ends, and keeps the lease",
        "lane-workers",
        "string-timeout",
        (),
        "lane",
    ),
    Bug(
        "error-text-unclean",
        "an error goes to the broker as it is, also where no UTF-8 can hold it",
        "lane-workers",
        "binary-failure",
        (),
        "lane",
    ),
    Bug(
        "vote-not-persisted", "a vote is answered before it is durable and never stored", "one-vote"
    ),
    Bug("double-vote", "a node votes for two candidates in one term", "one-vote"),
    Bug(
        "no-up-to-date-check",
        "a voter ignores whether the candidate's log is up to date",
        "leader-completeness",
    ),
    Bug("quorum-off-by-one", "half of the voters count as a majority", "vote-quorum"),
    Bug(
        "always-truncate",
        "an old append cuts a log that already holds its entries",
        "committed-truncated",
    ),
    Bug(
        "ack-wrong-term",
        "a proposal is acknowledged by log index, whatever term filled it",
        "acked-entry",
    ),
    Bug("no-noop-on-win", "a new leader appends nothing, so older entries wait", "liveness"),
    Bug(
        "commit-old-term",
        "a leader commits an older term's entry by counting copies",
        "leader-completeness",
    ),
    Bug(
        "snapshot-overwrites-newer-log",
        "a snapshot that arrives late replaces a log and a state that have gone on without it",
        "committed-truncated",
    ),
    Bug(
        "config-change-before-commit",
        "a leader changes the membership before the change before is committed",
        "leader-completeness",
    ),
)

_SUPERVISED: Final = (
    Bug(
        "circuit-closed-by-sibling",
        "a sibling that ends while the crash circuit is open closes it",
        "lane-burst",
        "crash-loop",
        (),
        "lane",
    ),
    Bug(
        "failing-pops-count-as-capacity",
        "a worker whose every pop fails tells nobody and counts as ready",
        "lane-probe",
        "probe-broker-hung",
        (),
        "lane",
    ),
    Bug(
        "restart-keeps-old-code",
        "workers are restarted for new code, but forked from the server that loaded the old",
        "stale-code",
        "queue-restart",
        (),
        "lane",
    ),
    Bug(
        "broker-asked-before-stop",
        "a stop asks the broker before it tells the workers, out of their grace",
        "lane-workers",
        "stop-frozen",
        (),
        "lane",
    ),
    Bug(
        "forked-child-stops-renewal",
        "a process that a job forked hangs up its parent's lease channel when it ends",
        "lane-workers",
        "fork-in-job",
        (),
        "lane",
    ),
)

BUGS: Final[dict[str, Bug]] = {bug.name: bug for bug in (*_ALL, *_SUPERVISED)}


class UnknownBugError(ValueError):
    """A name that no planted defect has."""


def parse_bugs(names: tuple[str, ...] | list[str]) -> Bugs:
    """Turn names into a checked set.

    Raises:
        UnknownBugError: A name is not in `BUGS`; the message names it and the choices.
    """
    for name in names:
        if name not in BUGS:
            raise UnknownBugError(f"unknown bug {name!r}; choose from: {', '.join(sorted(BUGS))}")
    return frozenset(names)
