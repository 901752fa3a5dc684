"""What a lane asks of a supervisor: new code, and how it is."""

from __future__ import annotations

from typing import Final

import msgspec
import trio

from ..checkers.lane_probes import PROBE, Probe
from ..histories.ops import RESTART
from ..system.supervisor.asking import NoAnswerError, ask, is_done, look, wait_until
from ..system.supervisor.checks import check_liveness, check_readiness
from ..system.supervisor.core.control import TTL_S, Action
from .activities import Stage

NEW_CODE: Final = "2"
_PROBE_S: Final = 0.25
_TAKEN_S_MAX: Final = 10.0
_DONE_S_MAX: Final = 60.0


async def put_new_code(stage: Stage) -> None:
    """Have the first supervisor load new code; record `restart` when its workers have it."""
    state = stage.run.supervisor
    op = stage.recorder.invoke(RESTART)
    stage.run.code_version.write_text(NEW_CODE, encoding="ascii")

    def restart() -> str:
        try:
            answer = ask(state, Action.RESTART, TTL_S, _TAKEN_S_MAX)
        except NoAnswerError as error:
            return str(error)
        if answer.refused is not None:
            return answer.refused
        is_over = wait_until(state, lambda sight: is_done(Action.RESTART, sight), _DONE_S_MAX)
        return "" if is_over else f"not done after {_DONE_S_MAX:g} s"

    refused = await trio.to_thread.run_sync(restart)
    if refused:
        stage.recorder.complete(op, "info", error=refused)
    else:
        stage.recorder.complete(op, "ok", {"code": NEW_CODE})


async def keep_asking(stage: Stage) -> None:
    """Ask the first supervisor about itself again and again, and record each answer; for ever."""
    while True:
        op = stage.recorder.invoke(PROBE)
        sight = look(stage.run.supervisor)
        unready = [reason.code for reason in check_readiness(sight)]
        probe = Probe(
            live=not any(True for _ in check_liveness(sight)),
            ready=not unready,
            codes=tuple(unready),
            pids=tuple(sorted(worker.pid for worker in sight.status.workers))
            if sight.status
            else (),
        )
        stage.recorder.complete(op, "ok", msgspec.to_builtins(probe))
        await trio.sleep(_PROBE_S)
