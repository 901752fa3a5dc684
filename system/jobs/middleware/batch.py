"""Members of a batch that need not run any more."""

from __future__ import annotations

from typing import Any

from ..batches.handle import UnknownBatchError
from ..context import JobContext
from ..rules import Proceed


class SkipIfBatchCancelled:
    """Ends a member unrun once its batch was cancelled: the batch counts it as skipped."""

    def __call__(self, context: JobContext, payload: Any, proceed: Proceed) -> None:
        """Ask the batch, then skip or go on; a job of no batch goes on."""
        if context.batch is not None:
            try:
                context.batch.is_skipped = context.batch.is_cancelled()
            except UnknownBatchError:
                context.batch.is_skipped = False
            if context.batch.is_skipped:
                context.skip(f"batch {context.batch.batch_id} was cancelled")
        proceed(context, payload)
