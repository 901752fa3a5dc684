"""Dispatching a batch: its row and its members, in one transaction when they are few."""

from __future__ import annotations

import time
import uuid
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypedDict, Unpack

import msgspec

from ...client import (
    BrokerError,
    Call,
    PushResult,
    SyncClient,
    TransactionResult,
)
from ...client import calls as broker
from ...client.keyvalue import kv
from ..application import Application
from ..callbacks import CallbackRef, callback_link
from ..dispatch import Dispatch, DispatchOptions, Step, prepare_dispatch
from ..links import Link
from .state import KEEP_S, BatchState, Occasion, put

if TYPE_CHECKING:
    from ...client import AsyncClient

Calls = Generator[Call[Any], Any, None]
"""What is to be asked, one after the other; each is sent the answer."""

MEMBERS_AT_ONCE: Final = 200
"""Members that one transaction pushes; also a limit of the broker's timers in one."""


class BatchOptions(TypedDict, total=False):
    """What a batch may say beyond its members.

    Attributes:
        name: What it is called, for people.
        then: Called once when every member has succeeded, retried ones included.
        catch: Called once when the first member is given up.
        finally_: Called once when every member has ended, however.
        allow_failures: Whether a failed member leaves the batch uncancelled; false.
        batch_id: Its id; absent or None mints one.
        connection: Connection of all members, for those that name none.
        keep_s: How long it is known after its last change, seconds; 30 days.
        after_commit: Whether it waits for the commit of an open transaction; absent or None leaves
            it to its first member.
    """

    name: str
    then: CallbackRef | None
    catch: CallbackRef | None
    finally_: CallbackRef | None
    allow_failures: bool
    batch_id: str | None
    connection: str | None
    keep_s: int
    after_commit: bool | None


@dataclass(frozen=True, slots=True)
class BatchDispatch:
    """A batch ready to be sent, any number of times under the same ids.

    Attributes:
        state: Its row as it begins.
        members: Its jobs.
        connection: Connection that it is sent on; None is the dispatcher's own.
        after_commit: Whether it waits for the commit of an open transaction.
    """

    state: BatchState
    members: tuple[Dispatch, ...]
    connection: str | None
    after_commit: bool = False

    def send(self, client: SyncClient) -> None:
        """Write its row and push its members.

        More than `MEMBERS_AT_ONCE` take several transactions: what was interrupted is made whole
        by sending it again, which changes nothing that is there.

        Raises:
            BrokerError: The broker refused it, or its fate is unknown; send it again.
        """
        calls = self._calls()
        call = next(calls, None)
        while call is not None:
            call = _after(calls, client.call(call).value)

    async def send_async(self, client: AsyncClient) -> None:
        """The same from a trio task; see `send`.

        Raises:
            BrokerError: The broker refused it, or its fate is unknown; send it again.
        """
        calls = self._calls()
        call = next(calls, None)
        while call is not None:
            answer = await client.call(call)
            call = _after(calls, answer.value)

    def _calls(self) -> Calls:
        row = put(self.state.id, self.state, 0, self.state.keep_s)
        first, rest = self.members[:MEMBERS_AT_ONCE], self.members[MEMBERS_AT_ONCE:]
        result: TransactionResult = yield broker.transaction(_body(first) | {"kv": [row]})
        if not result.success:
            if result.reason not in ("duplicate", "kv_precondition"):
                text = result.error or result.reason or "refused"
                raise BrokerError(200, "refused", text, definite=False)
            # It was sent before, in part at least: each for itself, none twice.
            yield kv([row | {"required": False}])
            yield from _push_each(first)
        while rest:
            yield from _push_each(rest[:MEMBERS_AT_ONCE])
            rest = rest[MEMBERS_AT_ONCE:]


def prepare_batch(
    app: Application, steps: Sequence[Step], **options: Unpack[BatchOptions]
) -> BatchDispatch:
    """Make a batch ready to be sent.

    Args:
        app: Where its jobs are registered.
        steps: Its members.
        options: See `BatchOptions`.

    Raises:
        ValueError: It has no members, they live on several connections or catch for themselves,
            two have one id, or one is unknown.
    """
    if not steps:
        raise ValueError("a batch has no members; give it at least one")
    batch_id = options.get("batch_id") or str(uuid.uuid4())
    connection = options.get("connection")
    members = tuple(_member(app, each, n, batch_id, connection) for n, each in enumerate(steps))
    used = members[0].connection
    if any(member.connection != used for member in members):
        names = sorted({member.connection or "default" for member in members})
        raise ValueError(f"a batch spans connections {', '.join(names)}; allowed: one")
    if len({member.body.id for member in members}) < len(members):
        raise ValueError("two members of a batch have the same job_id")
    chosen: dict[Occasion, CallbackRef | None] = {
        "then": options.get("then"),
        "catch": options.get("catch"),
        "finally": options.get("finally_"),
    }
    callbacks: dict[Occasion, Link] = {
        occasion: callback_link(app, callback, f"{batch_id}.{occasion}", used)
        for occasion, callback in chosen.items()
        if callback is not None
    }
    state = BatchState(
        id=batch_id,
        name=options.get("name", ""),
        total=len(members),
        pending=len(members),
        allow_failures=options.get("allow_failures", False),
        callbacks=callbacks,
        created_at=time.time(),
        keep_s=options.get("keep_s", KEEP_S),
    )
    waits = options.get("after_commit")
    return BatchDispatch(state, members, used, members[0].after_commit if waits is None else waits)


def _member(
    app: Application, step: Step, number: int, batch_id: str, connection: str | None
) -> Dispatch:
    options: DispatchOptions = {**step.options}
    options.setdefault("job_id", f"{batch_id}.{number + 1}")
    options.setdefault("connection", connection)
    if options.get("catch") is not None:
        raise ValueError(f"member {step.job!r} of a batch has a catch of its own; allowed: none")
    dispatch = prepare_dispatch(app, step.job, step.payload, **options)
    if dispatch.body.unique is not None:
        raise ValueError(f"member {step.job!r} of a batch is unique; allowed: jobs that are not")
    return dispatch.with_body(msgspec.structs.replace(dispatch.body, batch=batch_id))


def _body(members: Sequence[Dispatch]) -> dict[str, object]:
    items = [member.item() for member in members if member.delay_s <= 0]
    timers = [member.timer() for member in members if member.delay_s > 0]
    return {"operations": [{"type": "push", "items": items}] if items else [], "timers": timers}


def _push_each(members: Sequence[Dispatch]) -> Calls:
    items = [member.item() for member in members if member.delay_s <= 0]
    timers = [member.timer() for member in members if member.delay_s > 0]
    if items:
        results: tuple[PushResult, ...] = yield broker.push(items)
        for result in results:
            if result.status not in ("queued", "duplicate"):
                raise BrokerError(200, "refused", result.error or result.status, definite=False)
    if timers:
        yield broker.timers(timers)


def _after(calls: Calls, answer: object) -> Call[Any] | None:
    try:
        return calls.send(answer)
    except StopIteration:
        return None
