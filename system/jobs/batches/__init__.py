"""Batches: jobs that are counted together, with what is called when they are done."""

from .dispatching import BatchDispatch, BatchOptions, prepare_batch
from .handle import BatchHandle, UnknownBatchError
from .retrying import retry_batch
from .state import BatchState, Mark

__all__ = [
    "BatchDispatch",
    "BatchHandle",
    "BatchOptions",
    "BatchState",
    "Mark",
    "UnknownBatchError",
    "prepare_batch",
    "retry_batch",
]
