"""From a pickup to its handler: the payload is resolved, then the middleware is passed."""

from __future__ import annotations

from typing import Any

from .application import JobSpec
from .children import run_in
from .context import JobContext, MissingModel, error_text
from .delivery import Delivery
from .rules import Middleware, Proceed
from .session import WorkerSession
from .unique import free_before_start


def run_handler(
    session: WorkerSession, delivery: Delivery, spec: JobSpec, context: JobContext, payload: Any
) -> None:
    """Call a job's handler through its rules; raises what they raise."""

    def handle(own: JobContext, given: Any) -> None:
        free_before_start(session, delivery)
        run_in(session.pid, lambda: _run(session, spec, own, given))

    proceed: Proceed = handle
    for middleware in reversed(spec.rules.middleware):
        proceed = _link(middleware, proceed)
    proceed(context, _resolved(spec, context, payload))


def _run(session: WorkerSession, spec: JobSpec, context: JobContext, payload: Any) -> None:
    try:
        spec.run(context, payload)
    finally:
        if "forked-child-stops-renewal" in session.bugs and session.is_foreign():
            session.channel.hang_up()


def _resolved(spec: JobSpec, context: JobContext, payload: Any) -> Any:
    if spec.rules.resolve is None:
        return payload
    try:
        return spec.rules.resolve(payload)
    except MissingModel as missing:
        if spec.rules.delete_when_missing:
            context.skip(error_text(missing))
        context.fail(missing)


def _link(middleware: Middleware, proceed: Proceed) -> Proceed:
    def link(context: JobContext, payload: Any) -> None:
        middleware(context, payload, proceed)

    return link
