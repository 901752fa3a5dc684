"""The job driver that an application uses: jobs, dispatch, attempts, failed-job store."""

from .application import Application, Job, JobSpec
from .context import JobContext, MissingModel
from .dispatch import Dispatch, Dispatcher, DispatchResult, SyncDispatcher, prepare_dispatch
from .events import (
    AttemptAcked,
    AttemptEnded,
    AttemptStarting,
    BatchReceived,
    Cause,
    JobGaveUp,
    Outcome,
)
from .failed import FailedJob, FailedStore
from .middleware import RateLimited, Skip, ThrottlesExceptions, WithoutOverlapping
from .payload import NotAJobError, decode_job, payload_digest
from .requeue import forget_failed, list_failed, retry_failed
from .rules import JobRules, Middleware, Proceed
from .settings import ConnectionSettings, SettingError, WorkerSettings
from .shared_state import guard
from .worker import run_worker

__all__ = [
    "Application",
    "AttemptAcked",
    "AttemptEnded",
    "AttemptStarting",
    "BatchReceived",
    "Cause",
    "ConnectionSettings",
    "Dispatch",
    "DispatchResult",
    "Dispatcher",
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
    "RateLimited",
    "SettingError",
    "Skip",
    "SyncDispatcher",
    "ThrottlesExceptions",
    "WithoutOverlapping",
    "WorkerSettings",
    "decode_job",
    "forget_failed",
    "guard",
    "list_failed",
    "payload_digest",
    "prepare_dispatch",
    "retry_failed",
    "run_worker",
]
