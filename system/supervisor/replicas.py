"""Replicas over the broker's key/value store: one heartbeat a poll, and a view of who else lives.

A replica's key is `PREFIX/SCOPE/INSTANCE` in the namespace `NAMESPACE`. One batch writes it with a
time to live and lists the scope; the broker carries out a batch as a whole, so the list is of that
very moment. The value is for people who look: a view is made of keys alone.

How the control loop uses it: `heartbeat` once a poll, before any pool is judged; then, for each
pool, `view(scope)`, and `core.coordination.bounded_share(target, active, view, min, max)` in place
of the target. A view of None (`event_driven` woke the loop before the first heartbeat's outcome)
leaves the pool as it is. A pool of fixed size is not split. A pause, and a stop after every worker
was signalled, call `leave`; the next `heartbeat` comes back.
"""

from __future__ import annotations

import os
import platform
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import trio

from ..client import AsyncClient, BrokerError
from ..client.errors import CODE_MALFORMED
from ..client.keyvalue import KvAnswer, kv
from .clock import now_us
from .core.coordination import SCOPE_MEMBERS_MAX, View
from .core.membership import Membership, key_ttl_s
from .logbook import Logbook

NAMESPACE: Final = "atleastonce-supervisor"
PREFIX: Final = "replicas"
SCOPES_PER_CALL: Final = 4

_Operation = dict[str, object]


@dataclass(frozen=True, slots=True)
class ReplicaSettings:
    """Bounds of coordination.

    Attributes:
        ttl_us: How long a heartbeat counts; see `core.membership.member_ttl_us`.
        call_timeout_s: Longest duration of one call, all endpoints asked.
    """

    ttl_us: int
    call_timeout_s: float


class Replicas:
    """One master's part in its scopes.

    Args:
        client: Asks the broker; each of its tries ends within one endpoint's share of the timeout.
        scopes: Names, see `core.coordination.name_scope`; one named twice is one.
        settings: Bounds.
        log: The master's log.
        instance: This replica's id, new in each process; None makes one.

    Attributes:
        instance: This replica's id.
        absent: Scopes that it stays out of for now; its next heartbeat takes it out of them.
    """

    def __init__(
        self,
        client: AsyncClient,
        scopes: Sequence[str],
        settings: ReplicaSettings,
        log: Logbook,
        instance: str | None = None,
    ) -> None:
        self.instance = instance or uuid.uuid4().hex
        self._client = client
        self._settings = settings
        self._log = log
        self._members = {scope: Membership(self.instance, settings.ttl_us) for scope in scopes}
        self._known: dict[str, View] = {}
        self._is_reached = True
        self._turn = trio.Lock()
        self.absent: set[str] = set()

    def view(self, scope: str) -> View | None:
        """Return who shares a scope now; see `core.membership.Membership.view`."""
        return self._members[scope].view(now_us())

    async def heartbeat(self) -> bool:
        """Tell the broker that this replica lives, and learn who else does; call it once a poll.

        Returns:
            Whether every scope was answered.
        """
        async with self._turn:
            errors = []
            for scopes in self._calls():
                requested_us = now_us()
                operations = [operation for scope in scopes for operation in self._beat(scope)]
                try:
                    answers = await self._ask(operations)
                except BrokerError as error:
                    errors.append(str(error))
                    for scope in scopes:
                        self._members[scope].unheard()
                    continue
                for place, scope in enumerate(scopes):
                    if scope in self.absent:
                        self._members[scope].left()
                        self._known.pop(scope, None)
                        continue
                    self._heard(scope, answers[2 * place + 1], requested_us)
            self._note_reach(errors)
            return not errors

    async def leave(self) -> bool:
        """Take this replica out of its scopes; the others have its share after their next poll.

        Returns:
            Whether the broker confirmed it; if not, its keys expire.
        """
        async with self._turn:
            is_confirmed = True
            for scopes in self._calls():
                for scope in scopes:
                    self._members[scope].left()
                    self._known.pop(scope, None)
                operations: list[_Operation] = [
                    {"op": "delete", "ns": NAMESPACE, "key": self._key(scope)} for scope in scopes
                ]
                try:
                    await self._ask(operations)
                except BrokerError as error:
                    self._log.warning("replica leaves unheard", error=str(error))
                    is_confirmed = False
            return is_confirmed

    def _calls(self) -> Iterator[list[str]]:
        scopes = list(self._members)
        for first in range(0, len(scopes), SCOPES_PER_CALL):
            yield scopes[first : first + SCOPES_PER_CALL]

    def _key(self, scope: str) -> str:
        return f"{PREFIX}/{scope}/{self.instance}"

    def _beat(self, scope: str) -> tuple[_Operation, _Operation]:
        value = {"v": 1, "host": platform.node() or "localhost", "pid": os.getpid()}
        put: _Operation = {
            "op": "put",
            "ns": NAMESPACE,
            "key": self._key(scope),
            "value": value,
            "ttlSeconds": key_ttl_s(self._settings.ttl_us),
        }
        if scope in self.absent:
            put = {"op": "delete", "ns": NAMESPACE, "key": self._key(scope)}
        listing: _Operation = {
            "op": "getPrefix",
            "ns": NAMESPACE,
            "prefix": f"{PREFIX}/{scope}/",
            "limit": SCOPE_MEMBERS_MAX,
            "keysOnly": True,
        }
        return put, listing

    async def _ask(self, operations: Sequence[_Operation]) -> tuple[KvAnswer, ...]:
        """Carry out a batch.

        Raises:
            BrokerError: It was refused, or no final answer came in time.
        """
        call = kv(operations)
        answer = await self._client.call(call, deadline_s=self._settings.call_timeout_s)
        if len(answer.value) != len(operations):
            text = f"{len(answer.value)} results of {len(operations)} operations"
            raise BrokerError(None, CODE_MALFORMED, text, definite=False)
        return answer.value

    def _heard(self, scope: str, listing: KvAnswer, requested_us: int) -> None:
        start = len(f"{PREFIX}/{scope}/")
        membership = self._members[scope]
        membership.heard(requested_us, (row.key[start:] for row in listing.rows))
        view = membership.view(requested_us)
        if view is None or view == self._known.get(scope):
            return
        self._known[scope] = view
        self._log.info("replicas", scope=scope, members=list(view.members), position=view.position)
        if view.position is None:
            self._log.warning("replica in reserve", scope=scope, members_max=SCOPE_MEMBERS_MAX)

    def _note_reach(self, errors: list[str]) -> None:
        if bool(errors) is self._is_reached:
            self._is_reached = not errors
            if errors:
                self._log.warning("replicas unreachable", error=errors[0])
            else:
                self._log.info("replicas reached again")
