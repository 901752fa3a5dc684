"""How tests draw: the same in every run, unless a run is told to search.

A gate that draws at random fails by chance, in somebody else's change. To search is a run of its
own: `pytest --hypothesis-profile search`. What that finds becomes an `@example` of its test.
"""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.internal.conjecture import providers
from hypothesis.internal.constants_ast import Constants
from trio._core import _run as trio_run

GATE = "same"

# How fast examples are drawn and run is the machine's affair.
_ANY_SPEED = settings(
    database=None, deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True
)
settings.register_profile(GATE, _ANY_SPEED, derandomize=True)
settings.register_profile("search", _ANY_SPEED, derandomize=False, max_examples=2000)
settings.load_profile(GATE)


def pytest_sessionstart(session: pytest.Session) -> None:
    """Have no example depend on what else was imported.

    Among others, Hypothesis draws the constants of all modules of ours that are loaded: any change
    of any file, and any late import of an earlier test, would draw other examples.
    """
    if settings.get_current_profile_name() == GATE:
        assert "_get_local_constants" in vars(providers), "Hypothesis finds them in another way"
        vars(providers)["_get_local_constants"] = Constants


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Have trio wake tasks that are ready at once in an order that only the test decides."""
    if settings.get_current_profile_name() == GATE:
        trio_run._r.seed(item.nodeid)
