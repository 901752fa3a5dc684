"""The job driver that an application uses: jobs, dispatch, attempts, failed-job store."""

from .after_commit import AfterCommit, AsyncAfterCommit
from .application import Application, Job, JobSpec
from .async_dispatcher import Dispatcher
from .batches.dispatching import prepare_batch
from .batches.handle import BatchHandle, UnknownBatchError
from .batches.retrying import retry_batch
from .batches.state import BatchState
from .bulk import BulkResult
from .chain import prepare_chain
from .context import JobContext, MissingModel
from .dispatch import Dispatch, DispatchResult, Step, prepare_dispatch, step
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
from .middleware import (
    RateLimited,
    Skip,
    SkipIfBatchCancelled,
    ThrottlesExceptions,
    WithoutOverlapping,
)
from .notifications import notification
from .outbox import flush_outbox
from .payload import NotAJobError, decode_job, payload_digest
from .requeue import flush_failed, forget_failed, list_failed, prune_failed, retry_failed
from .rules import JobRules, Middleware, Proceed
from .settings import ConnectionSettings, SettingError, WorkerSettings
from .shared_state import guard
from .sizing import QueueSize, busy_queues, queue_size
from .sync_dispatcher import SyncDispatcher
from .worker import run_worker

__all__ = [
    "AfterCommit",
    "Application",
    "AsyncAfterCommit",
    "AttemptAcked",
    "AttemptEnded",
    "AttemptStarting",
    "BatchHandle",
    "BatchReceived",
    "BatchState",
    "BulkResult",
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
    "JobRules",
    "JobSpec",
    "Middleware",
    "MissingModel",
    "NotAJobError",
    "Outcome",
    "Proceed",
    "QueueBusy",
    "QueueSize",
    "RateLimited",
    "SettingError",
    "Skip",
    "SkipIfBatchCancelled",
    "Step",
    "SyncDispatcher",
    "ThrottlesExceptions",
    "UnknownBatchError",
    "WithoutOverlapping",
    "WorkerSettings",
    "busy_queues",
    "decode_job",
    "flush_failed",
    "flush_outbox",
    "forget_failed",
    "guard",
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
