"""Dispatching from trio tasks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Unpack

from ..client import Answer, BrokerError, Call
from .after_commit import AsyncAfterCommit, open_async_transaction
from .application import Application
from .batches.dispatching import BatchOptions, prepare_batch
from .bulk import BulkDispatch, BulkResult
from .callbacks import CallbackRef
from .chain import prepare_chain
from .dispatch import (
    Dispatch,
    DispatchOptions,
    DispatchResult,
    Step,
    bulk_batch_of,
    chosen_client,
    prepare_dispatch,
)
from .outbox import DbConnection
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

        Under `after_commit`, in an open transaction, it is sent when that commits.

        Raises:
            BrokerError: The broker refused it, or its fate is unknown (`definite` is false).
            ValueError: See `prepare_dispatch`.
        """
        return await self._send_or_wait(prepare_dispatch(target, job_name, payload, **options))

    async def dispatch_many(
        self, target: Application | ConnectionSettings, steps: Sequence[Step]
    ) -> tuple[BulkResult, ...]:
        """Prepare and send jobs, up to `bulk_batch` of their connection in one request.

        Returns:
            One for each job, in order; what the broker did not take has its error there.

        Raises:
            ValueError: See `prepare_dispatch`; nothing was sent.
        """
        prepared = [prepare_dispatch(target, one.job, one.payload, **one.options) for one in steps]
        transaction = open_async_transaction()
        if transaction is None:
            return await self.send_many(prepared, lambda name: bulk_batch_of(target, name))
        at_once = [one for one in prepared if not one.after_commit]
        sent = iter(await self.send_many(at_once, lambda name: bulk_batch_of(target, name)))
        return tuple(
            [
                BulkResult(one.body.id, await self._send_or_wait(one))
                if one.after_commit
                else next(sent)
                for one in prepared
            ]
        )

    async def send_many(
        self, prepared: Sequence[Dispatch], bulk_batch: Callable[[str | None], int]
    ) -> tuple[BulkResult, ...]:
        """Send prepared jobs, possibly again; `bulk_batch` is by connection.

        Raises:
            ValueError: There is no client for a connection.
        """
        bulk = BulkDispatch(prepared, bulk_batch)
        while (request := bulk.next()) is not None:
            client = chosen_client(request.connection, self._client, self._routes)
            try:
                answer = await client.call(request.call, request_id=request.request_id)
            except BrokerError as error:
                bulk.failed(request, error)
            else:
                bulk.answered(request, answer)
        return bulk.results()

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
        transaction = open_async_transaction() if prepared.after_commit else None
        if transaction is None:
            await prepared.send_async(client)
        else:
            transaction.call(partial(prepared.send_async, client))
        return prepared.state.id

    async def chain(
        self, app: Application, steps: Sequence[Step], *, catch: CallbackRef | None = None
    ) -> DispatchResult:
        """Send jobs that run one after the other; see `chain.prepare_chain`.

        Raises:
            BrokerError: The broker refused it, or its fate is unknown (`definite` is false).
            ValueError: See `prepare_chain`.
        """
        return await self._send_or_wait(prepare_chain(app, steps, catch=catch))

    def after_commit(self, connection: DbConnection, *, outbox: bool = True) -> AsyncAfterCommit:
        """A transaction of the application's own database, whose dispatches wait for its commit.

        See `after_commit.AsyncAfterCommit`.
        """
        return AsyncAfterCommit(self.send, connection, outbox=outbox)

    async def _send_or_wait(self, dispatch: Dispatch) -> DispatchResult:
        transaction = open_async_transaction() if dispatch.after_commit else None
        if transaction is None:
            return await self.send(dispatch)
        transaction.add(dispatch, self.send)
        return dispatch.waiting()
