"""Chains: jobs that run in order, each pushed by the transaction that acks the one before it.

The rest of a chain travels in the payload of its running job. A job that is given up ends its
chain: the links behind it never run, and `catch` is pushed by the transaction that files the dead
letter. Ids are chosen when the chain is dispatched, so no crash can lose or double a link.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import Final

import msgspec

from .application import Application
from .callbacks import CallbackRef, callback_link, callback_payload
from .dispatch import Dispatch, DispatchOptions, Step, prepare_dispatch
from .links import Chain, Followers, Link
from .payload import JobBody

_BODY_ENCODER: Final = msgspec.json.Encoder()


def prepare_chain(
    app: Application,
    steps: Sequence[Step],
    *,
    catch: CallbackRef | None = None,
    chain_id: str | None = None,
    connection: str | None = None,
) -> Dispatch:
    """Make a chain ready to be sent; sending its first job sends all of it.

    Args:
        app: Where its jobs are registered.
        steps: Its jobs, in order; the delay of a link counts from the end of the one before.
        catch: A registered job or function, called once with `{chain, job, job_id, error}` when a
            job of the chain is given up.
        chain_id: Its id; None mints one.
        connection: Connection of all its jobs, for those that name none.

    Raises:
        ValueError: It has no steps, its jobs live on several connections, or a step is unknown.
    """
    if not steps:
        raise ValueError("a chain has no steps; give it at least one")
    chosen = chain_id or str(uuid.uuid4())
    prepared = [_prepare(app, step, chosen, n, connection) for n, step in enumerate(steps)]
    first = prepared[0]
    for dispatch in prepared:
        if dispatch.connection != first.connection:
            raise ValueError(
                f"a chain spans connections {first.connection or 'default'!r} and "
                f"{dispatch.connection or 'default'!r}; allowed: one"
            )
    links = tuple(
        Link(
            queue=dispatch.queue,
            partition=dispatch.partition,
            id=dispatch.body.id,
            body=msgspec.Raw(_BODY_ENCODER.encode(dispatch.body)),
            delay_s=dispatch.delay_s,
        )
        for dispatch in prepared[1:]
    )
    failure = None
    if catch is not None:
        failure = callback_link(app, catch, f"{chosen}.catch", first.connection)
    chain = Chain(id=chosen, links=links, catch=failure)
    return first.with_body(msgspec.structs.replace(first.body, chain=chain))


def break_off(app: Application, body: JobBody, error: str, followers: Followers) -> None:
    """Add the callback of a chain whose job is given up."""
    if body.chain is None or body.chain.catch is None:
        return
    link = body.chain.catch
    data = {"chain": body.chain.id, "job": body.job, "job_id": body.id, "error": error}
    followers.add(link, callback_payload(app, link, data))


def _prepare(
    app: Application, step: Step, chain_id: str, number: int, connection: str | None
) -> Dispatch:
    options: DispatchOptions = {**step.options}
    options.setdefault("job_id", f"{chain_id}.{number + 1}")
    options.setdefault("connection", connection)
    if options.get("catch") is not None:
        raise ValueError(f"link {step.job!r} of a chain has a catch of its own; allowed: none")
    dispatch = prepare_dispatch(app, step.job, step.payload, **options)
    if number and dispatch.body.unique is not None:
        text = "is unique; allowed: the first one only"
        raise ValueError(f"link {step.job!r} of a chain {text}")
    return dispatch
