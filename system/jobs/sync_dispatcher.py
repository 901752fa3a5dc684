"""Dispatching from code without an event loop: jobs, chains, batches, events, notifications."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Unpack

from ..client import Answer, BrokerError, Call, SyncClient
from .after_commit import AfterCommit, open_transaction
from .application import Application
from .batches.dispatching import BatchOptions, prepare_batch
from .batches.handle import BatchHandle
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
from .listeners import prepare_event
from .notifications import prepare_notification
from .outbox import DbConnection
from .settings import ConnectionSettings


class SyncDispatcher:
    """Dispatches from code without an event loop, such as a handler."""

    def __init__(self, client: SyncClient, routes: Mapping[str, SyncClient] | None = None) -> None:
        """Use clients, which stay the caller's: one, and one for each further connection."""
        self._client = client
        self._routes = dict(routes or {})

    def dispatch(
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
        return self._send_or_wait(prepare_dispatch(target, job_name, payload, **options))

    def dispatch_many(
        self, target: Application | ConnectionSettings, steps: Sequence[Step]
    ) -> tuple[BulkResult, ...]:
        """Prepare and send jobs, up to `bulk_batch` of their connection in one request.

        Returns:
            One for each job, in order; what the broker did not take has its error there.

        Raises:
            ValueError: See `prepare_dispatch`; nothing was sent.
        """
        prepared = [prepare_dispatch(target, one.job, one.payload, **one.options) for one in steps]
        transaction = open_transaction()
        if transaction is None:
            return self.send_many(prepared, lambda name: bulk_batch_of(target, name))
        at_once = [one for one in prepared if not one.after_commit]
        sent = iter(self.send_many(at_once, lambda name: bulk_batch_of(target, name)))
        return tuple(
            BulkResult(one.body.id, self._send_or_wait(one)) if one.after_commit else next(sent)
            for one in prepared
        )

    def send_many(
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
                answer = client.call(request.call, request_id=request.request_id)
            except BrokerError as error:
                bulk.failed(request, error)
            else:
                bulk.answered(request, answer)
        return bulk.results()

    def send(self, dispatch: Dispatch) -> DispatchResult:
        """Send a prepared job, possibly again.

        Raises:
            BrokerError: The broker refused it, or its fate is unknown (`definite` is false).
            ValueError: There is no client for its connection.
        """
        call: Call[Any] = dispatch.call()
        client = chosen_client(dispatch.connection, self._client, self._routes)
        answer: Answer[Any] = client.call(call, request_id=dispatch.request_id)
        return dispatch.read(answer)

    def chain(
        self, app: Application, steps: Sequence[Step], *, catch: CallbackRef | None = None
    ) -> DispatchResult:
        """Send jobs that run one after the other; see `chain.prepare_chain`.

        Raises:
            BrokerError: The broker refused it, or its fate is unknown (`definite` is false).
            ValueError: See `prepare_chain`.
        """
        return self._send_or_wait(prepare_chain(app, steps, catch=catch))

    def batch(
        self, app: Application, steps: Sequence[Step], **options: Unpack[BatchOptions]
    ) -> BatchHandle:
        """Send jobs that are counted together; see `batches.prepare_batch`.

        Raises:
            BrokerError: The broker refused it, or its fate is unknown (`definite` is false).
            ValueError: See `prepare_batch`, or there is no client for its connection.
        """
        prepared = prepare_batch(app, steps, **options)
        client = chosen_client(prepared.connection, self._client, self._routes)
        transaction = open_transaction() if prepared.after_commit else None
        if transaction is None:
            prepared.send(client)
        else:
            transaction.call(partial(prepared.send, client))
        return BatchHandle(client, prepared.state.id)

    def emit(
        self, app: Application, event: str, payload: object, *, event_id: str | None = None
    ) -> tuple[DispatchResult, ...]:
        """Have every queued listener of an event run once; see `listeners`.

        Raises:
            BrokerError: The broker refused it, or its fate is unknown (`definite` is false).
        """
        return self._send_all(prepare_event(app, event, payload, event_id=event_id))

    def notify(
        self,
        app: Application,
        notification: str,
        notifiables: Sequence[object],
        payload: object = None,
        *,
        notification_id: str | None = None,
    ) -> tuple[DispatchResult, ...]:
        """Have a notification sent to each of these, once each; see `notifications`.

        Raises:
            BrokerError: The broker refused it, or its fate is unknown (`definite` is false).
            ValueError: There is no such notification.
        """
        prepared = prepare_notification(
            app, notification, notifiables, payload, notification_id=notification_id
        )
        return self._send_all(prepared)

    def after_commit(self, connection: DbConnection, *, outbox: bool = True) -> AfterCommit:
        """A transaction of the application's own database, whose dispatches wait for its commit.

        See `after_commit.AfterCommit`.
        """
        return AfterCommit(self.send, connection, outbox=outbox)

    def _send_all(self, prepared: Sequence[Dispatch]) -> tuple[DispatchResult, ...]:
        return tuple(self._send_or_wait(dispatch) for dispatch in prepared)

    def _send_or_wait(self, dispatch: Dispatch) -> DispatchResult:
        transaction = open_transaction() if dispatch.after_commit else None
        if transaction is None:
            return self.send(dispatch)
        transaction.add(dispatch, self.send)
        return dispatch.waiting()
