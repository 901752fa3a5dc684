"""The job driver that an application uses: jobs, dispatch, attempts, failed-job store."""

from .after_commit import AfterCommit, flush_outbox
from .application import Application, Job, JobSpec
from .batches import BatchHandle, BatchState, UnknownBatchError, prepare_batch, retry_batch
from .chain import prepare_chain
from .context import JobContext
from .dispatch import Dispatch, Dispatcher, DispatchResult, Step, prepare_dispatch, step
from .encryption import EncryptionKeys, EncryptionKeysError
from .events import (
    AttemptAcked,
    AttemptEnded,
    AttemptStarting,
    BatchReceived,
    Cause,
    JobGaveUp,
    Outcome,
    QueueBusy,
)
from .failed import FailedJob, FailedStore
from .listeners import queued_listener
from .notifications import notification
from .payload import NotAJobError, decode_job, payload_digest
from .requeue import flush_failed, forget_failed, list_failed, prune_failed, retry_failed
from .settings import ConnectionSettings, SettingError, WorkerSettings
from .sizing import QueueSize, busy_queues, queue_size
from .sync_dispatcher import SyncDispatcher
from .worker import run_worker

__all__ = [
    "AfterCommit",
    "Application",
    "AttemptAcked",
    "AttemptEnded",
    "AttemptStarting",
    "BatchHandle",
    "BatchReceived",
    "BatchState",
    "Cause",
    "ConnectionSettings",
    "Dispatch",
    "DispatchResult",
    "Dispatcher",
    "EncryptionKeys",
    "EncryptionKeysError",
    "FailedJob",
    "FailedStore",
    "Job",
    "JobContext",
    "JobGaveUp",
    "JobSpec",
    "NotAJobError",
    "Outcome",
    "QueueBusy",
    "QueueSize",
    "SettingError",
    "Step",
    "SyncDispatcher",
    "UnknownBatchError",
    "WorkerSettings",
    "busy_queues",
    "decode_job",
    "flush_failed",
    "flush_outbox",
    "forget_failed",
    "list_failed",
    "notification",
    "payload_digest",
    "prepare_batch",
    "prepare_chain",
    "prepare_dispatch",
    "prune_failed",
    "queue_size",
    "queued_listener",
    "retry_batch",
    "retry_failed",
    "run_worker",
    "step",
]
