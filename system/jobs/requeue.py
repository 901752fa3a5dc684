"""Commands on the failed-job store: list, retry, forget.

A retried job's dead letter is deleted first, then the job is pushed under an id that a repeat
carries too, then its row is deleted: whatever is interrupted can be done again.
"""

from __future__ import annotations

from ..client import BrokerError, SyncClient
from ..client import calls as broker
from .delays import wall_us
from .failed import FailedJob, FailedStore
from .payload import copy_payload, copy_txn, decode_job, renewed


class UnknownFailedJobError(LookupError):
    """The store has no job of this id."""


def list_failed(store: FailedStore) -> tuple[FailedJob, ...]:
    """All jobs that were given up, oldest first."""
    return store.list()


def retry_failed(store: FailedStore, client: SyncClient, job_id: str) -> None:
    """Queue a job again, with all its tries.

    Raises:
        UnknownFailedJobError: There is no such job.
        NotAJobError: Its payload is not a job; it can only be forgotten.
        BrokerError: The broker did not do its part; retry again.
    """
    row = _find(store, job_id)
    body = renewed(decode_job(row.payload.encode()), wall_us())
    client.call(broker.delete_dead_letter(row.partition_id, row.txn))
    item = {
        "queue": row.queue,
        "partition": row.partition,
        "transactionId": copy_txn(row.id, row.txn, "manual"),
        "payload": copy_payload(body, 0),
    }
    results = client.call(broker.push([item])).value
    if len(results) != 1 or results[0].status not in ("queued", "duplicate"):
        text = (results[0].error if results else None) or "refused"
        raise BrokerError(200, "refused", text, definite=False)
    store.remove(job_id)


def forget_failed(store: FailedStore, client: SyncClient, job_id: str) -> None:
    """Delete a job's dead letter and its row.

    Raises:
        UnknownFailedJobError: There is no such job.
        BrokerError: The broker did not do its part; forget again.
    """
    row = _find(store, job_id)
    client.call(broker.delete_dead_letter(row.partition_id, row.txn))
    store.remove(job_id)


def _find(store: FailedStore, job_id: str) -> FailedJob:
    row = store.get(job_id)
    if row is None:
        raise UnknownFailedJobError(f"no failed job {job_id!r} in {store.path}")
    return row
