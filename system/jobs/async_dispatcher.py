"""Dispatching from trio tasks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Unpack

from ..client import Answer, AsyncClient, Call
from .application import Application
from .dispatch import Dispatch, DispatchOptions, DispatchResult, chosen_client, prepare_dispatch
from .settings import ConnectionSettings


class Dispatcher:
    """Dispatches from trio tasks."""

    def __init__(
        self, client: AsyncClient, routes: Mapping[str, AsyncClient] | None = None
    ) -> None:
        """Use clients, which stay the caller's: one, and one for each further connection."""
        self._client = client
        self._routes = dict(routes or {})

    async def dispatch(
        self,
        target: Application | ConnectionSettings,
        job_name: str,
        payload: object,
        **options: Unpack[DispatchOptions],
    ) -> DispatchResult:
        """Prepare and send a job; the options are those of `prepare_dispatch`.

        Raises:
            BrokerError: The broker refused it, or its fate is unknown (`definite` is false).
            ValueError: See `prepare_dispatch`.
        """
        return await self.send(prepare_dispatch(target, job_name, payload, **options))

    async def send(
        self,
        dispatch: Dispatch,
        *,
        deadline_s: float | None = None,
        first_endpoint: int | None = None,
    ) -> DispatchResult:
        """Send a prepared job, possibly again; see `AsyncClient.call` for the arguments.

        Raises:
            BrokerError: The broker refused it, or its fate is unknown (`definite` is false).
            ValueError: There is no client for its connection.
        """
        call: Call[Any] = dispatch.call()
        client = chosen_client(dispatch.connection, self._client, self._routes)
        answer: Answer[Any] = await client.call(
            call,
            request_id=dispatch.request_id,
            deadline_s=deadline_s,
            first_endpoint=first_endpoint,
        )
        return dispatch.read(answer)
