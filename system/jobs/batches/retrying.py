"""Retrying the failed members of a batch, from the store of jobs that were given up."""

from __future__ import annotations

from ...client import SyncClient
from ..failed import FailedStore
from ..requeue import retry_failed
from .handle import BatchHandle


def retry_batch(store: FailedStore, client: SyncClient, batch_id: str) -> tuple[str, ...]:
    """Queue every failed member again that this store holds; returns their ids.

    A member that then succeeds is no longer counted as failed; `then` comes when all have.

    Raises:
        BrokerError: The broker did not do its part; retry again.
    """
    retried: list[str] = []
    for job_id in BatchHandle(client, batch_id).failed_members():
        if store.get(job_id) is not None:
            retry_failed(store, client, job_id)
            retried.append(job_id)
    return tuple(retried)
