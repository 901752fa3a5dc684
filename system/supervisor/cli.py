"""`atleastonce supervisor`: look at a running supervisor, and tell it what to do.

Exit status: 0 yes or done, 1 no or not done, 2 it cannot be looked at.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from .options_command import options, run
from .remote_command import with_broker

if TYPE_CHECKING:
    from .checks import Reason, Sight
    from .core.control import Action

EXIT_YES: Final = 0
EXIT_NO: Final = 1

DEFAULT_STATE_DIR: Final = Path("supervisor-state")
_F = TypeVar("_F", bound=Callable[..., Any])

_STATE_DIR: Final = click.option(
    "--state-dir",
    type=click.Path(path_type=Path),
    default=DEFAULT_STATE_DIR,
    show_default=True,
    envvar="ATLEASTONCE_STATE_DIR",
    show_envvar=True,
    help="State directory of the supervisor.",
)
_JSON: Final = click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")


@click.group()
def supervisor() -> None:
    """Run a supervisor, look at one, and pause, continue, restart or terminate it."""


supervisor.add_command(run)
supervisor.add_command(options)


def _asking(action_name: str, sentence: str) -> None:
    @supervisor.command(action_name, help=sentence)
    @_STATE_DIR
    @_JSON
    @click.option(
        "--ttl",
        "ttl_s",
        type=click.IntRange(30, 86_400),
        default=None,
        help="Seconds the request holds; without it control_ttl_s of the supervisor.",
    )
    @click.option(
        "--timeout",
        "timeout_s",
        type=click.FloatRange(min=0, min_open=True),
        default=10.0,
        show_default=True,
        help="Seconds to wait until it is taken; after that it is withdrawn.",
    )
    @click.option(
        "--wait",
        "wait_s",
        type=click.FloatRange(min=0),
        default=0.0,
        show_default=True,
        help="Seconds to wait until it is done, too.",
    )
    def command(
        state_dir: Path, as_json: bool, ttl_s: int | None, timeout_s: float, wait_s: float
    ) -> int:
        return _ask(action_name, state_dir, as_json, ttl_s, timeout_s, wait_s)


_asking("pause", "Let every running job finish, and start nothing until `continue`.")
_asking("continue", "Start workers again after a pause.")
_asking("restart", "Put newly loaded code in the place of the old; running jobs finish.")
_asking("terminate", "Let every running job finish within the grace, then end.")


def _ask(
    name: str, root: Path, as_json: bool, ttl_s: int | None, timeout_s: float, wait_s: float
) -> int:
    # Late: `atleastonce --help` needs none of it.
    from .asking import NoAnswerError, ask, is_done, look, wait_until
    from .core.control import Action
    from .statedir import StateDirectoryError

    action = Action(name)
    refused, is_finished = None, True
    try:
        refused = ask(root, action, ttl_s, timeout_s).refused
        if refused is None and wait_s > 0:
            is_finished = wait_until(root, lambda sight: is_done(action, sight), wait_s)
        sight = look(root)
    except NoAnswerError as error:
        refused, sight = str(error), None
    except (StateDirectoryError, OSError) as error:
        raise click.ClickException(str(error)) from None
    failure = _restart_failure(action, sight) if wait_s > 0 else None
    if refused is None and failure is not None:
        refused = failure
    state = sight.status.state if sight is not None and sight.status is not None else None
    if as_json:
        told = {"action": name, "accepted": refused is None, "reason": refused, "state": state}
        click.echo(json.dumps(told | ({"done": is_finished} if wait_s > 0 else {})))
    elif refused is not None:
        click.echo(f"{name}: {refused}", err=True)
    elif not is_finished:
        click.echo(f"{name}: accepted, and not done within {wait_s:g} s: {state}", err=True)
    else:
        click.echo(f"{name}: accepted: {state}")
    return EXIT_YES if refused is None and is_finished else EXIT_NO


def _restart_failure(action: Action, sight: Sight | None) -> str | None:
    if action.value != "restart" or sight is None or sight.status is None:
        return None
    return sight.status.restart_failure


@supervisor.command()
@click.argument("switch", type=click.Choice(("on", "off")))
@_STATE_DIR
@_JSON
@click.option(
    "--timeout",
    "timeout_s",
    type=click.FloatRange(min=0, min_open=True),
    default=10.0,
    show_default=True,
    help="Seconds to wait until a running supervisor has noticed.",
)
@click.option(
    "--wait",
    "wait_s",
    type=click.FloatRange(min=0),
    default=0.0,
    show_default=True,
    help="Seconds to wait until the workers have finished, too.",
)
def maintenance(
    switch: str, state_dir: Path, as_json: bool, timeout_s: float, wait_s: float
) -> int:
    """Let pools without `force` finish their jobs and take none until it is off again.

    It holds across restarts of the supervisor, and may be switched while none runs.
    """
    from .maintenance_command import switch as switch_it

    return switch_it(state_dir, switch, as_json, timeout_s, wait_s)


@supervisor.command()
@_STATE_DIR
@_JSON
@click.option("--check", "ready", is_flag=True, help="Is it ready: does a worker get jobs?")
@click.option("--check-liveness", "alive", is_flag=True, help="Lock held, heartbeat fresh?")
@click.option(
    "--check-capacity", "at_capacity", is_flag=True, help="All workers there, circuit closed?"
)
@with_broker
def status(
    state_dir: Path,
    as_json: bool,
    ready: bool,
    alive: bool,
    at_capacity: bool,
    remote: bool,
    endpoints: tuple[str, ...],
    **security: str | None,
) -> int:
    """Show a supervisor, or answer one question; status 1 when the answer is no.

    With --remote the supervisors are shown that publish their status in the broker
    (master.remote_status); status 1 when it does not answer.
    """
    asked = {"ready": ready, "alive": alive, "at capacity": at_capacity}
    chosen = [name for name, is_asked in asked.items() if is_asked]
    if len(chosen) > 1:
        raise click.UsageError("choose one of --check, --check-liveness and --check-capacity")
    check = chosen[0] if chosen else None
    if remote:
        return _show_remote(check, endpoints, as_json, security)
    if endpoints or any(security.values()):
        raise click.UsageError("--endpoint and the files of a guarded broker need --remote")
    from .asking import look
    from .checks import check_capacity, check_liveness, check_readiness
    from .statedir import StateDirectoryError

    try:
        sight = look(state_dir)
    except StateDirectoryError as error:
        raise click.ClickException(str(error)) from None
    checks: dict[str | None, Callable[[Sight], Iterator[Reason]]] = {
        None: check_liveness,
        "alive": check_liveness,
        "ready": check_readiness,
        "at capacity": check_capacity,
    }
    reasons = list(checks[check](sight))
    if as_json:
        click.echo(json.dumps(_plain(sight, check, reasons)))
    elif check is None:
        for line in _lines(sight, reasons):
            click.echo(line)
    else:
        no = "" if not reasons else "not "
        click.echo(f"{no}{check}" + "".join(f"; {reason.text}" for reason in reasons))
    return EXIT_YES if not reasons else EXIT_NO


def _show_remote(
    check: str | None, endpoints: tuple[str, ...], as_json: bool, files: dict[str, str | None]
) -> int:
    from ..client import SecurityFiles
    from .remote_command import DEFAULT_ENDPOINT, show

    if check is not None:
        raise click.UsageError("--remote shows; a check is of the supervisor of --state-dir")
    return show(endpoints or (DEFAULT_ENDPOINT,), SecurityFiles(**files), as_json)


def _plain(sight: Sight, check: str | None, reasons: list[Reason]) -> dict[str, Any]:
    import msgspec

    listed = [{"code": reason.code, "text": reason.text} for reason in reasons]
    if check is not None:
        return {"check": check, "answer": not reasons, "reasons": listed}
    from .checks import not_consuming

    seen = sight.status
    return {
        "alive": not reasons,
        "reasons": listed,
        "heartbeat_age_s": None if seen is None else round((sight.now_ns - seen.t_ns) / 1e9, 3),
        "not_consuming": [] if seen is None else not_consuming(seen, sight.now_ns),
        "status": None if seen is None else msgspec.to_builtins(seen),
    }


def _lines(sight: Sight, reasons: list[Reason]) -> Iterator[str]:
    from .checks import not_consuming

    seen = sight.status
    for reason in reasons:
        yield reason.text
    if seen is None:
        return
    age_s = (sight.now_ns - seen.t_ns) / 1e9
    yield (
        f"master {seen.master}: {seen.state}, {len(seen.workers)} of {seen.desired} workers, "
        f"circuit {seen.circuit}, code {seen.code}{' (restarting)' if seen.is_restarting else ''}, "
        f"heartbeat {age_s:.1f} s ago"
    )
    if seen.maintenance != "off":
        yield f"maintenance: {seen.maintenance}"
    if seen.start_failure is not None and sight.holder is not None:
        yield f"the code cannot be loaded: {seen.start_failure}"
    if seen.restart_failure is not None:
        yield f"the last restart failed: {seen.restart_failure}"
    failing = not_consuming(seen, sight.now_ns)
    for worker in seen.workers:
        since_s = (sight.now_ns - worker.since_ns) / 1e9
        job = f" {worker.job}" if worker.job else ""
        idle = ", gets no jobs" if worker.pid in failing else ""
        yield (
            f"  worker {worker.pid}: {worker.state}{job} for {since_s:.1f} s, "
            f"{worker.leases} leases, code {worker.code}{idle}"
        )
