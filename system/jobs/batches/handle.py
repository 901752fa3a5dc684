"""A batch from outside or from one of its members: how far it is, and its cancelling."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import msgspec

from ...client import SyncClient
from ...client.keyvalue import kv
from .state import NAMESPACE, BatchState, Mark, get, member_key, put, read_state

PAGE: Final = 1000
_MARKS: Final = msgspec.json.Decoder(Mark)


class UnknownBatchError(LookupError):
    """The broker knows no batch of this id, or no longer."""


class BatchHandle:
    """One batch at one broker.

    Attributes:
        batch_id: The batch.
        is_skipped: Whether this member of it ends unrun because it was cancelled.
    """

    def __init__(self, client: SyncClient | Callable[[], SyncClient], batch_id: str) -> None:
        """Use a client, which stays the caller's, or what returns the process's own."""
        self._source = client
        self.batch_id = batch_id
        self.is_skipped = False

    def state(self) -> BatchState:
        """What is known of it now.

        Raises:
            UnknownBatchError: Nothing is.
            BrokerError: No node answered.
        """
        state, _ = self._read()
        return state

    def progress(self) -> int:
        """Members that have succeeded or were skipped, percent; see `state` for what it raises."""
        return self.state().progress

    def is_cancelled(self) -> bool:
        """Whether it was cancelled; see `state` for what it raises."""
        return self.state().cancelled

    def cancel(self) -> bool:
        """Cancel it: members that are set to skip end unrun. Returns whether this call did so.

        Raises:
            UnknownBatchError: There is no such batch.
            BrokerError: Its fate is unknown; cancel again.
        """
        while True:
            state, version = self._read()
            if state.cancelled:
                return False
            changed = msgspec.structs.replace(state, cancelled=True)
            operation = put(self.batch_id, changed, version, state.keep_s)
            (result,) = self._client().call(kv([operation | {"required": False}])).value
            if result.applied:
                return True

    def failed_members(self) -> tuple[str, ...]:
        """Ids of the members that were given up and have not succeeded since.

        Raises:
            BrokerError: No node answered.
        """
        prefix, after, found = member_key(self.batch_id, ""), "", list[str]()
        while True:
            operation = {
                "op": "getPrefix",
                "ns": NAMESPACE,
                "prefix": prefix,
                "after": after,
                "limit": PAGE,
            }
            (page,) = self._client().call(kv([operation])).value
            for row in page.rows:
                if _MARKS.decode(row.value) is Mark.FAILED:
                    found.append(row.key.removeprefix(prefix))
            if not page.truncated or not page.rows:
                return tuple(found)
            after = page.rows[-1].key

    def _client(self) -> SyncClient:
        return self._source if isinstance(self._source, SyncClient) else self._source()

    def _read(self) -> tuple[BatchState, int]:
        (row,) = self._client().call(kv([get(self.batch_id)])).value
        state = read_state(row)
        if state is None:
            raise UnknownBatchError(f"no batch {self.batch_id!r}")
        return state, row.version
