"""Which jobs the exact rules must look at, as one query a rule.

A query may yield a job that turns out to be fine; it must never leave out one that is not. The
exact rules judge only what the queries yield, so that each judgement is written once.

Tables: `deliveries` (sorted by job and time), `dispatches`, `given_up` (one row for each record or
store entry that says a job was given up), and `jobs` (one row a job, made here). Times are ns.
"""

from __future__ import annotations

from typing import Final

import duckdb
import numpy as np
from numpy.typing import NDArray

from ..histories.dispatches import FAIL, OK, STATUSES
from ..histories.table import COMPLETED, THREW
from .facts import NEVER_NS, RAN, UNSTARTED
from .world import World

_JOBS: Final = f"""
CREATE TEMP TABLE jobs AS
WITH asked AS (
    SELECT job,
        count(*) FILTER (result = {OK}) AS acknowledged,
        count(*) FILTER (result <> {FAIL}) AS possible,
        count(*) FILTER (result = {OK} AND status = {STATUSES.index("queued")}) AS queued,
        max(invoke_ns) FILTER (result = {OK} AND status = {STATUSES.index("queued")})
            > min(done_ns) FILTER (result = {OK}) AS queued_again,
        min(invoke_ns) FILTER (result <> {FAIL}) AS first_invoke_ns,
        min(not_before_ns) FILTER (not_before_ns >= 0) AS not_before_ns,
        max(tries) AS tries_max, min(tries) FILTER (tries > 0) AS tries_min,
        min(timeout_ns) FILTER (timeout_ns >= 0) AS timeout_ns
    FROM dispatches GROUP BY job
), delivered AS (
    SELECT job,
        count(*) FILTER (kind = {RAN}) AS runs,
        count(*) FILTER (kind = {UNSTARTED}) AS unstarted,
        count(*) FILTER (outcome = {COMPLETED}) AS completed,
        min(start_ns) FILTER (start_ns >= 0) AS first_start_ns,
        max(least(end_ns, $end_ns) - start_ns) FILTER (kind = {RAN}) AS longest_ns
    FROM deliveries GROUP BY job
), ended AS (
    SELECT job, count(*) AS given_up FROM given_up GROUP BY job
)
SELECT job, coalesce(acknowledged, 0) AS acknowledged, coalesce(possible, 0) AS possible,
    coalesce(queued, 0) AS queued, queued_again, first_invoke_ns, not_before_ns,
    coalesce(tries_max, 0) AS tries_max, tries_min, timeout_ns, coalesce(runs, 0) AS runs,
    coalesce(unstarted, 0) AS unstarted, coalesce(completed, 0) AS completed, first_start_ns,
    longest_ns, coalesce(given_up, 0) AS given_up
FROM asked FULL JOIN delivered USING (job) FULL JOIN ended USING (job)
"""

_STEPS: Final = """
CREATE TEMP TABLE steps AS
SELECT job, attempt, kind, start_ns, end_ns, outcome,
    row_number() OVER in_job AS position,
    lag(end_ns) OVER in_job AS last_end_ns,
    lag(outcome) OVER in_job AS last_outcome
FROM deliveries
WHERE job IN (SELECT job FROM deliveries GROUP BY job HAVING count(*) > 1)
WINDOW in_job AS (PARTITION BY job ORDER BY t_ns)
"""

CANDIDATES: Final[dict[str, str]] = {
    "lost": "SELECT job FROM jobs WHERE acknowledged > 0 AND completed = 0 AND given_up = 0",
    "phantom": """
        SELECT job FROM jobs
        WHERE runs > 0 AND (possible = 0 OR first_start_ns < first_invoke_ns)""",
    "duplicate-dispatch": f"""
        SELECT job FROM jobs WHERE queued > 1 OR queued_again
        UNION SELECT job FROM steps WHERE kind = {RAN} GROUP BY job, attempt HAVING count(*) > 1""",
    "completed-twice": "SELECT job FROM jobs WHERE completed > 1",
    "overlap": f"""
        SELECT DISTINCT job FROM steps WHERE start_ns < last_end_ns AND last_end_ns <> {NEVER_NS}
        UNION SELECT job FROM deliveries WHERE kind = {RAN} AND end_ns = {NEVER_NS}
        UNION SELECT job FROM jobs WHERE runs > 1 AND unstarted > 0""",
    "attempt-number": """
        SELECT job FROM deliveries WHERE attempt <> 1
            AND job NOT IN (SELECT job FROM steps)
        UNION SELECT job FROM steps WHERE attempt <> position
        UNION SELECT job FROM jobs WHERE unstarted > 0""",
    "too-few-tries": """
        SELECT job FROM jobs WHERE given_up > 0 AND (tries_max = 0 OR runs < tries_max)""",
    "too-many-tries": "SELECT job FROM jobs WHERE runs > tries_min",
    "both-ended": "SELECT job FROM jobs WHERE completed > 0 AND given_up > 0",
    "store-mismatch": """
        SELECT job FROM given_up GROUP BY job
        HAVING count(*) <> 3 OR count(DISTINCT place) <> 3 OR NOT bool_and(as_dispatched)""",
    "early": f"""
        SELECT job FROM jobs WHERE first_start_ns < not_before_ns
        UNION SELECT job FROM steps WHERE last_outcome = {THREW}
            AND start_ns < last_end_ns + (SELECT max(backoff_ns) FROM dispatches)
        UNION SELECT job FROM jobs WHERE runs > 1 AND unstarted > 0""",
    "timeout-not-enforced": "SELECT job FROM jobs WHERE longest_ns > timeout_ns",
}


def find_candidates(world: World) -> dict[str, NDArray[np.int64]]:
    """Run all queries; return the jobs that each rule must judge exactly, in order."""
    with duckdb.connect(":memory:") as database:
        database.execute("SET threads = 2")
        database.execute("SET memory_limit = '512MB'")
        database.execute("SET preserve_insertion_order = false")
        _register(database, world)
        database.execute(_JOBS, {"end_ns": world.facts.end_ns})
        database.execute(_STEPS)
        return {
            rule: np.sort(database.execute(query).fetchnumpy()["job"].astype(np.int64))
            for rule, query in CANDIDATES.items()
        }


def _register(database: duckdb.DuckDBPyConnection, world: World) -> None:
    deliveries, dispatches = world.facts.deliveries, world.run.dispatches
    picked = ("job", "t_ns", "attempt", "kind", "start_ns", "end_ns", "outcome")
    database.register("deliveries", {name: getattr(deliveries, name) for name in picked})
    asked = (
        "job",
        "invoke_ns",
        "done_ns",
        "result",
        "status",
        "tries",
        "timeout_ns",
        "not_before_ns",
    )
    columns = {name: getattr(dispatches, name) for name in asked}
    longest = np.array([max(waits, default=0.0) for waits in dispatches.backoffs] or [0.0])
    columns["backoff_ns"] = np.round(longest[dispatches.backoff] * 1e9).astype(np.int64)
    database.register("dispatches", columns)
    database.register("given_up", _given_up(world))


def _given_up(world: World) -> dict[str, NDArray[np.generic]]:
    table, dispatches = world.run.attempts, world.run.dispatches
    row_of_job = np.full(len(table.jobs), -1, np.int64)
    row_of_job[dispatches.job[::-1]] = np.arange(len(dispatches))[::-1]
    told = [(int(table.job[row]), 0, entry.digest or "") for row, entry in table.gave_up.items()]
    for place, store in ((1, world.stores.letters), (2, world.stores.rows)):
        told += [
            (job, place, stored.digest)
            for job, entries in (store or {}).items()
            for stored in entries
        ]
    rows = row_of_job[[job for job, _, _ in told]]
    as_dispatched = [
        not digest or row < 0 or dispatches.digest[row] == digest.encode()
        for (_, _, digest), row in zip(told, rows.tolist(), strict=True)
    ]
    return {
        "job": np.array([job for job, _, _ in told], np.int32),
        "place": np.array([place for _, place, _ in told], np.int8),
        "as_dispatched": np.array(as_dispatched, np.bool_),
    }
