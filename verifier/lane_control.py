"""What a lane asks of a supervisor: new code, and how it is."""

from __future__ import annotations

from typing import Final

import msgspec
import trio

from ..checkers.lane_probes import PROBE, Probe
from ..histories.ops import RESTART
from ..system.supervisor.asking import NoAnswerError, ask, look, wait_until
from ..system.supervisor.checks import Sight, check_liveness, check_readiness
from ..system.supervisor.core.control import TTL_S, Action
from .activities import Stage

NEW_CODE: Final = "2"
_PROBE_S: Final = 0.25
_TAKEN_S_MAX: Final = 10.0
_DONE_S_MAX: Final = 60.0


async def put_new_code(stage: Stage) -> None:
    """Ask the first supervisor for new code; record `restart` when no old worker is left."""
    state = stage.run.supervisor
    op = stage.recorder.invoke(RESTART)
    stage.run.code_version.write_text(NEW_CODE, encoding="ascii")

    def restart() -> str:
        before = _pids(look(state))
        try:
            answer = ask(state, Action.RESTART, TTL_S, _TAKEN_S_MAX)
        except NoAnswerError as error:
            return str(error)
        if answer.refused is not None:
            return answer.refused
        is_over = wait_until(state, lambda sight: _is_replaced(sight, before), _DONE_S_MAX)
        return "" if is_over else f"not done after {_DONE_S_MAX:g} s"

    refused = await trio.to_thread.run_sync(restart, abandon_on_cancel=True)
    if refused:
        stage.recorder.complete(op, "info", error=refused)
    else:
        stage.recorder.complete(op, "ok", {"code": NEW_CODE})


def _pids(sight: Sight) -> frozenset[int]:
    status = sight.status
    return frozenset(worker.pid for worker in status.workers) if status else frozenset()


def _is_replaced(sight: Sight, before: frozenset[int]) -> bool:
    """Whether all workers are new. Whether their code is, their own records tell."""
    status, pids = sight.status, _pids(sight)
    return status is not None and len(pids) >= status.desired and pids.isdisjoint(before)


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
            pids=tuple(sorted(_pids(sight))),
        )
        stage.recorder.complete(op, "ok", msgspec.to_builtins(probe))
        await trio.sleep(_PROBE_S)
