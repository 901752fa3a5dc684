"""The one public way to speak to a broker.

`SyncClient` is for processes without an event loop, `AsyncClient` for trio. Both take the calls of
`calls` and repeat a call under the ids it was born with until its deadline.
"""

from typing import TYPE_CHECKING

from .blocking import Interrupted, Pending, SyncClient
from .calls import Call
from .errors import BrokerError
from .fetching import Fetched, FetchedPartition, FetchedRecord, FetchFrom
from .records import (
    AckResult,
    Answer,
    DeadLetter,
    DeadLetters,
    Depth,
    Endpoint,
    ExtendResult,
    Health,
    Message,
    PartitionDepth,
    Popped,
    PushResult,
    RaftHealth,
    TimerResult,
    TransactionResult,
)
from .retry import ClientOptions
from .security import Security, SecurityFiles, SecurityFilesError, load_security

if TYPE_CHECKING:
    from .asynchronous import AsyncClient
else:

    def __getattr__(name: str) -> object:
        # Late: workers have no event loop, and each page that trio fills is one more to share.
        if name != "AsyncClient":
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from .asynchronous import AsyncClient

        return AsyncClient


__all__ = [
    "AckResult",
    "Answer",
    "AsyncClient",
    "BrokerError",
    "Call",
    "ClientOptions",
    "DeadLetter",
    "DeadLetters",
    "Depth",
    "Endpoint",
    "ExtendResult",
    "FetchFrom",
    "Fetched",
    "FetchedPartition",
    "FetchedRecord",
    "Health",
    "Interrupted",
    "Message",
    "PartitionDepth",
    "Pending",
    "Popped",
    "PushResult",
    "RaftHealth",
    "Security",
    "SecurityFiles",
    "SecurityFilesError",
    "SyncClient",
    "TimerResult",
    "TransactionResult",
    "load_security",
]
