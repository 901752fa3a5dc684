"""What the queries of the checker promise: they leave out no job that breaks a rule."""

from __future__ import annotations

import numpy as np

from atleastonce.checkers.attempts import JUDGES
from atleastonce.checkers.candidates import find_candidates
from atleastonce.checkers.contract import Contract
from atleastonce.checkers.facts import derive_facts
from atleastonce.checkers.world import World
from atleastonce.histories.folder import RunRecords


def assert_queries_leave_out_nothing(records: RunRecords, contract: Contract) -> None:
    """The exact rules find nothing in a job that the queries did not yield."""
    world = World(records, derive_facts(records), contract)
    candidates = find_candidates(world)
    for rule, judge in JUDGES.items():
        for number in np.setdiff1d(np.arange(len(records.attempts.jobs)), candidates[rule]):
            assert not list(judge(world.job(int(number)), world)), (rule, number)
