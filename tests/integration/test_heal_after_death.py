"""A verifier that is killed leaves nothing once it is healed; the campaign tries many moments."""

from __future__ import annotations

import subprocess
import threading
import time
from pathlib import Path

import pytest

from tests.heal_campaign.campaign import Wait, kill_and_heal, open_faults, try_moment

pytestmark = pytest.mark.cluster

_POLL = threading.Event()


def until_open(kind: str) -> Wait:
    """Until a fault of a kind is written down as open."""

    def wait(run: subprocess.Popen[bytes], store: Path) -> None:
        deadline_s = time.monotonic() + 60
        while not any(fault.startswith(kind) for fault in open_faults(store)):
            assert run.poll() is None, f"the run ended with {run.returncode}"
            assert time.monotonic() < deadline_s, f"no {kind} was opened"
            _POLL.wait(0.005)

    return wait


@pytest.mark.parametrize(
    ("number", "nemesis"),
    [(1, "pause-nodes"), (2, "kill-supervisor-workers"), (3, "kill-worker-state")],
)
def test_a_verifier_killed_amid_a_fault_leaves_nothing_after_heal(
    number: int, nemesis: str, tmp_path: Path
) -> None:
    moment = kill_and_heal(number, 7, tmp_path.resolve(), nemesis, until_open(nemesis))
    assert moment.left == ()
    # It may have been healed between the look and the kill.
    assert moment.undone


def test_a_verifier_killed_while_it_starts_leaves_nothing_after_heal(tmp_path: Path) -> None:
    for number in (1, 2):
        assert try_moment(number, 3, tmp_path.resolve(), "pause-nodes").left == ()
