"""Running a test's scenario in a network namespace of its own, or seeing that there is none."""

from __future__ import annotations

import traceback
from collections.abc import Callable

from atleastonce.nemesis.levels import NETWORK, PRIVATE_WORLD
from atleastonce.nemesis.namespaces import CLONE_NEWNET, CLONE_NEWNS, leave
from atleastonce.verifier.levels import probe_machine
from atleastonce.verifier.probing import LevelProbe, RefusedError, try_all


def in_private(scenario: Callable[[], None], limit_s: float = 20.0) -> None:
    """Run a scenario in a child with a network namespace of its own.

    Where the machine gives nobody one, the refusal must be the one that its probes foretell.
    """

    def attempt() -> str:
        leave(CLONE_NEWNET | CLONE_NEWNS)
        try:
            scenario()
        except BaseException:
            raise RefusedError(traceback.format_exc()) from None
        return "done"

    (finding,) = try_all([LevelProbe("scenario", attempt, "", "", "")], limit_s)
    if finding.passed:
        return
    lacks = [each for each in probe_machine((PRIVATE_WORLD, NETWORK)) if not each.passed]
    assert lacks, finding.found
