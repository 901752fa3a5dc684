"""A bulk dispatch: many jobs in few requests, each with an answer of its own. No I/O."""

from __future__ import annotations

import uuid
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from ..client import Answer, BrokerError, Call
from ..client import calls as broker
from .dispatch import Dispatch, DispatchResult

REQUEST_BYTES_MAX: Final = 16 << 20
"""Data of the jobs in one request; a broker takes 64 MiB at once, timers in base64."""
TIMERS_MAX: Final = 200
"""Timers that a broker sets in one request."""
CODE_NOT_SENT: Final = "not_sent"
_SPLITS: Final = (400, 413, 422)
"""Statuses that one job of a request may have caused."""


@dataclass(frozen=True, slots=True)
class BulkResult:
    """What became of one job of a bulk dispatch.

    Attributes:
        job_id: The job.
        result: What the broker did with it, a duplicate included; None when it did not take it.
        error: Why not; None when it did. Where it is not definite, the job may be there: sent
            again under its id it is there once.
    """

    job_id: str
    result: DispatchResult | None = None
    error: BrokerError | None = None


@dataclass(frozen=True, slots=True)
class BulkRequest:
    """Jobs that go to the broker at once.

    Attributes:
        connection: Connection that it is sent on; None is the dispatcher's own.
        places: Of each job in the bulk dispatch.
        call: What to ask.
        request_id: Id that every try carries.
    """

    connection: str | None
    places: tuple[int, ...]
    call: Call[Any]
    request_id: str


@dataclass(slots=True)
class _Filling:
    """A request that has room: places of its jobs, bytes of their data."""

    places: list[int]
    size: int

    def takes(self, size: int, most: int) -> bool:
        return len(self.places) < most and self.size + size <= REQUEST_BYTES_MAX


class BulkDispatch:
    """Jobs, the requests that they make, and the results as answers come.

    Jobs of one kind and connection stay in order. A unique job goes alone, since its lock and
    it are all or nothing.
    """

    def __init__(
        self, dispatches: Sequence[Dispatch], bulk_batch: Callable[[str | None], int]
    ) -> None:
        """Make the requests.

        Args:
            dispatches: The jobs.
            bulk_batch: Jobs in one request at most, by connection.
        """
        self._dispatches = tuple(dispatches)
        self._results: dict[int, BulkResult] = {}
        self._broken: dict[str | None, BrokerError] = {}
        self.requests = tuple(self._make_requests(bulk_batch))
        self._todo = deque(self.requests)

    def next(self) -> BulkRequest | None:
        """What to send next; None when every job has its result.

        Once no node of a connection has answered, its other jobs are not sent, and say so.
        """
        while self._todo:
            request = self._todo.popleft()
            error = self._broken.get(request.connection)
            if error is None:
                return request
            text = f"not sent, as no node answered before: {error.text}"
            self._fail(request, BrokerError(None, CODE_NOT_SENT, text, definite=True))
        return None

    def answered(self, request: BulkRequest, answer: Answer[Any]) -> None:
        """An answer came: one result for each job."""
        results = answer.value if isinstance(answer.value, tuple) else (answer.value,)
        if len(results) != len(request.places):
            text = f"{len(results)} results for {len(request.places)} jobs"
            self._fail(request, BrokerError(200, "malformed_answer", text, definite=False))
            return
        for place, result in zip(request.places, results, strict=True):
            dispatch = self._dispatches[place]
            value = (result,) if isinstance(answer.value, tuple) else result
            try:
                read = dispatch.read(Answer(value, answer.answered_by, answer.tries))
            except BrokerError as error:
                self._results[place] = BulkResult(dispatch.body.id, error=error)
            else:
                self._results[place] = BulkResult(dispatch.body.id, read)

    def failed(self, request: BulkRequest, error: BrokerError) -> None:
        """No answer came, or a refusal of the whole request.

        One job may be what is wrong with it: its halves come next.
        """
        if error.status is None:
            self._broken[request.connection] = error
        places = request.places
        if error.definite and error.status in _SPLITS and len(places) > 1:
            middle = len(places) // 2
            halves = (self._request(places[:middle]), self._request(places[middle:]))
            self._todo.extendleft(reversed(halves))
            return
        self._fail(request, error)

    def results(self) -> tuple[BulkResult, ...]:
        """One for each job, in order; every request must have ended."""
        return tuple(self._results[place] for place in range(len(self._dispatches)))

    def _fail(self, request: BulkRequest, error: BrokerError) -> None:
        for place in request.places:
            self._results[place] = BulkResult(self._dispatches[place].body.id, error=error)

    def _make_requests(self, bulk_batch: Callable[[str | None], int]) -> list[BulkRequest]:
        filling: dict[tuple[str | None, bool], _Filling] = {}
        made: list[list[int]] = []
        for place, dispatch in enumerate(self._dispatches):
            size = len(bytes(dispatch.body.data))
            key = (dispatch.connection, dispatch.delay_s > 0)
            most = bulk_batch(dispatch.connection)
            if dispatch.delay_s > 0:
                most = min(most, TIMERS_MAX)
            last = filling.get(key)
            if dispatch.body.unique is not None:
                made.append([place])
            elif last is not None and last.takes(size, most):
                last.places.append(place)
                last.size += size
            else:
                filling[key] = _Filling([place], size)
                made.append(filling[key].places)
        return [self._request(places) for places in made]

    def _request(self, places: Sequence[int]) -> BulkRequest:
        dispatches = [self._dispatches[place] for place in places]
        first = dispatches[0]
        call: Call[Any]
        if first.body.unique is not None:
            call = first.call()
        elif first.delay_s > 0:
            call = broker.timers([dispatch.timer() for dispatch in dispatches])
        else:
            call = broker.push([dispatch.item() for dispatch in dispatches])
        return BulkRequest(first.connection, tuple(places), call, uuid.uuid4().hex)
