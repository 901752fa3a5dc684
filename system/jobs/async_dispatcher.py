"""Dispatching from trio tasks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Unpack

from ..client import Answer, Call
from .application import Application
from .batches.dispatching import BatchOptions, prepare_batch
from .callbacks import CallbackRef
from .chain import prepare_chain
from .dispatch import (
    Dispatch,
    DispatchOptions,
    DispatchResult,
    Step,
    chosen_client,
    prepare_dispatch,
)
from .settings import ConnectionSettings

if TYPE_CHECKING:
    from ..client import AsyncClient


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

    async def batch(
        self, app: Application, steps: Sequence[Step], **options: Unpack[BatchOptions]
    ) -> str:
        """Send jobs that are counted together; see `batches.dispatching`. Returns the batch's id.

        Raises:
            BrokerError: The broker refused it, or its fate is unknown (`definite` is false).
            ValueError: See `prepare_batch`, or there is no client for its connection.
        """
        prepared = prepare_batch(app, steps, **options)
        client = chosen_client(prepared.connection, self._client, self._routes)
        await prepared.send_async(client)
        return prepared.state.id

    async def chain(
        self, app: Application, steps: Sequence[Step], *, catch: CallbackRef | None = None
    ) -> DispatchResult:
        """Send jobs that run one after the other; see `chain.prepare_chain`.

        Raises:
            BrokerError: The broker refused it, or its fate is unknown (`definite` is false).
            ValueError: See `prepare_chain`.
        """
        return await self.send(prepare_chain(app, steps, catch=catch))
