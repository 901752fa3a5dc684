"""The operator's side of a run's nodes: asked over HTTP, and their folders on the disk."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec
import trio

from ..nemesis.administration import Change, ChangeAction, Member
from ..nemesis.damage import empty_folder
from ..system.client import AsyncClient, BrokerError, Call, ClientOptions, Endpoint
from ..system.client.membering import change_member, members
from ..system.client.wire import Response
from ..system.node.config import load_config
from .config import write_config
from .gates import Gates
from .store import RunPaths

_LIST_S: Final = 1.0
_PAUSE_S: Final = 0.1
_PASSING: Final = ("change_in_progress", "not_ready")
"""Refusals that say that it is only too early."""


class NodeAdministration:
    """See `nemesis.administration.Administration`.

    Args:
        run: The run's folder.
        endpoints: Where each node serves.
        gates: Starts the nodes, and remembers what is durable on them.
    """

    def __init__(
        self,
        run: RunPaths,
        endpoints: Mapping[str, Endpoint],
        gates: Gates,
    ) -> None:
        self._run = run
        self._endpoints = endpoints
        self._gates = gates

    async def probe(self, node: str, body_bytes: int, timeout_s: float) -> int | None:
        """See `Administration`."""
        body = b" " * body_bytes + b"x"
        call = Call("probe", "POST", "/api/v1/push", body, _status)
        client = AsyncClient((self._endpoints[node],), ClientOptions(timeout_s, timeout_s))
        try:
            return (await client.call(call, again=False)).value
        except BrokerError as error:
            return error.status
        finally:
            with trio.CancelScope(shield=True):
                await client.aclose()

    async def members(self) -> Mapping[str, Member] | None:
        """See `Administration`."""
        client = self._client(_LIST_S)
        try:
            seen = (await client.call(members(), deadline_s=_LIST_S)).value
        except BrokerError:
            return None
        finally:
            with trio.CancelScope(shield=True):
                await client.aclose()
        return {each.node: Member(each.role, each.lag, each.replaced) for each in seen}

    async def change(self, action: ChangeAction, node: str, timeout_s: float) -> Change:
        """See `Administration`."""
        until = trio.current_time() + timeout_s
        client = self._client(min(5.0, timeout_s))
        try:
            while True:
                change = await self._change(client, action, node, until - trio.current_time())
                is_late = trio.current_time() + _PAUSE_S >= until
                if change.code not in _PASSING or is_late:
                    return change
                await trio.sleep(_PAUSE_S)
        finally:
            with trio.CancelScope(shield=True):
                await client.aclose()

    async def _change(
        self, client: AsyncClient, action: ChangeAction, node: str, left_s: float
    ) -> Change:
        try:
            await client.call(change_member(action, node), deadline_s=max(_PAUSE_S, left_s))
        except BrokerError as error:
            return Change(error.status or 0, error.code)
        return Change(200)

    def _client(self, try_s: float) -> AsyncClient:
        return AsyncClient(tuple(self._endpoints.values()), ClientOptions(try_s, try_s))

    async def wipe(self, node: str) -> int:
        """See `Administration`."""
        folder = self._run.node_data(node)
        size = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
        await trio.to_thread.run_sync(empty_folder, folder)
        self._gates.forget(node)
        path = self._run.node_config(node)
        write_config(path, msgspec.structs.replace(load_config(path), join=True))
        return size

    def start_within(self, node: str, command: Sequence[str]) -> None:
        """See `Administration`."""
        self._gates.within[node] = tuple(command)


def _status(response: Response) -> int:
    return response.status
