"""Requests made from the document of the surface, valid ones and broken ones, to a real node.

Whatever comes back must be stated in the document, in time, and in the form that it states; no
5xx is acceptable from a node that has a leader and room.
"""

from __future__ import annotations

import itertools
import random
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import hypothesis
import requests
import schemathesis
from hypothesis import strategies as st
from schemathesis.checks import CHECKS, load_all_checks
from schemathesis.core.result import Ok
from schemathesis.generation.modes import GenerationMode

TIMEOUT_S: Final = 10.0
"""More than any answer may take; waits are cut to `WAIT_MS_MAX`."""

WAIT_MS_MAX: Final = 20
MODES: Final = (GenerationMode.POSITIVE, GenerationMode.NEGATIVE)

load_all_checks()
_CHECKS: Final = CHECKS.get_by_names(
    [
        "not_a_server_error",
        "status_code_conformance",
        "content_type_conformance",
        "response_schema_conformance",
    ]
)


@dataclass(frozen=True, slots=True)
class Caller:
    """Somebody who asks.

    Attributes:
        name: For messages.
        headers: What they send along.
        is_known: Whether the node should let them in at all.
    """

    name: str
    headers: Mapping[str, str] = field(default_factory=dict)
    is_known: bool = True


ANYBODY: Final = Caller("anybody")


@dataclass(slots=True)
class Tally:
    """What was asked and answered: requests, and answers by status."""

    requests: int = 0
    statuses: Counter[int] = field(default_factory=Counter)


class Surface:
    """Asks everything that a node's document describes.

    Args:
        url: Of the node.
        callers: Who asks; each request draws one of them.
    """

    def __init__(self, url: str, callers: tuple[Caller, ...] = (ANYBODY,)) -> None:
        self.tally = Tally()
        self._url = url
        self._callers = callers
        self._session = requests.Session()
        self._schema = schemathesis.openapi.from_url(
            f"{url}/openapi.json", headers=dict(callers[0].headers)
        )

    def close(self) -> None:
        """Close the connection."""
        self._session.close()

    def operations(self) -> Iterator[Any]:
        """Every operation of the document."""
        for found in self._schema.get_all_operations():
            assert isinstance(found, Ok), f"the document has a fault: {found}"
            yield found.ok()

    def explore(self, operation: Any, mode: GenerationMode, examples: int, seed: int) -> None:
        """Make so many requests of one operation, unless there is nothing of it to break.

        Raises:
            AssertionError: An answer is not as stated, with the request that brings it.
        """

        @hypothesis.seed(seed)
        @hypothesis.settings(
            max_examples=examples,
            deadline=None,
            database=None,
            suppress_health_check=list(hypothesis.HealthCheck),
        )
        @hypothesis.given(
            case=operation.as_strategy(generation_mode=mode), caller=st.sampled_from(self._callers)
        )
        def ask(case: Any, caller: Caller) -> None:
            self._ask(case, caller)

        if mode is GenerationMode.POSITIVE or list(operation.query) or list(operation.body):
            ask()

    def run(self, seconds: float, seed: int) -> None:
        """Explore all operations, with more and more examples, until the time is over.

        Raises:
            AssertionError: As `explore` does.
        """
        ends_s = time.monotonic() + seconds
        operations = list(self.operations())
        for turn in itertools.count():
            random.Random(seed + turn).shuffle(operations)
            for operation, mode in itertools.product(operations, MODES):
                if time.monotonic() >= ends_s:
                    return
                self.explore(operation, mode, 5 * 2 ** min(turn, 6), seed + turn)

    def _ask(self, case: Any, caller: Caller) -> None:
        _hurry(case)
        headers = {**caller.headers}
        response = case.call(
            base_url=self._url,
            session=self._session,
            headers=headers,
            timeout=TIMEOUT_S,
            allow_redirects=False,
        )
        self.tally.requests += 1
        self.tally.statuses[response.status_code] += 1
        case.validate_response(response, checks=_CHECKS)
        is_open = case.operation.path == "/health"
        assert caller.is_known or is_open or response.status_code in (401, 400), (
            f"{caller.name} got {response.status_code} from {case.operation.label}"
        )


def _hurry(case: Any) -> None:
    """Cut what a request waits for on purpose."""
    if isinstance(case.query, dict) and case.query.get("wait"):
        case.query["timeout"] = _cut(case.query.get("timeout"))
    if isinstance(case.body, dict) and "maxWaitMs" in case.body:
        wait_ms = case.body["maxWaitMs"]
        if isinstance(wait_ms, int):
            case.body["maxWaitMs"] = min(wait_ms, WAIT_MS_MAX)


def _cut(wait_ms: object) -> int:
    """A bound for what is no number, too: that counts as absent, and half a minute is waited."""
    return min(wait_ms, WAIT_MS_MAX) if isinstance(wait_ms, int) else WAIT_MS_MAX
