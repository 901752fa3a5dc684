"""A broker behind its routes, without sockets: requests as a client sends them, answers parsed."""

from __future__ import annotations

import json
from typing import TypeAlias

import trio

from atleastonce.system.broker.commands import FireTimers
from atleastonce.system.broker.machine import Machine
from atleastonce.system.broker.planner import Planner
from atleastonce.system.http.routes import (
    Answer,
    FetchRequest,
    PopRequest,
    ReadRequest,
    ReportRequest,
    Request,
    RingRequest,
    Write,
    render,
    route,
)
from atleastonce.system.node.activity import Activity
from atleastonce.system.node.ephemeral import EphemeralDesk
from atleastonce.system.node.leadership import Leadership
from atleastonce.system.node.reports import Reports

Json: TypeAlias = "dict[str, Json] | list[Json] | str | int | float | bool | None"


CARRIED = (Write, PopRequest, ReadRequest, FetchRequest, RingRequest, ReportRequest)
"""What `Wire.carry` knows how to answer; the rest needs a node."""


class Wire:
    """Carries requests through route, planner, machine and render.

    Attributes:
        clock_us: The leader's clock.
        machine: The machine.
    """

    def __init__(self) -> None:
        self.machine = Machine()
        self.ephemeral = EphemeralDesk(self.machine, Leadership())
        self.clock_us = 1_800_000_000_000_000
        self._planner = Planner(lambda count: bytes(range(count)))
        self._index = 0

    def send(
        self,
        method: str,
        target: str,
        body: Json | bytes = b"",
        content_type: str = "application/json",
        request_id: str = "",
        subject: str | None = None,
    ) -> Answer:
        """The raw answer; a body that is not bytes is sent as JSON."""
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        name = request_id or f"request-{self._index + 1}"
        request = route(method, target, {"content-type": content_type}, data, name, subject)
        return request if isinstance(request, Answer) else self.carry(request)

    def carry(self, request: Request) -> Answer:
        """The answer to a request that has found its route."""
        assert isinstance(request, CARRIED)
        self._index += 1
        if isinstance(request, ReadRequest | FetchRequest):
            return render(request, self.machine.read(request.query, self.clock_us))
        if isinstance(request, RingRequest):
            return self.ephemeral.act(request, self.clock_us)
        if isinstance(request, ReportRequest):
            reports = Reports("n1", self.machine, Activity(self.machine))
            return trio.run(reports.answer, request, self.clock_us)
        if isinstance(request, PopRequest):
            self.machine.can_pop(request.command, self.clock_us)
        entry = self._planner.plan(self.clock_us, (request.command,))
        (reply,) = self.machine.apply(self._index, entry)
        return render(request, reply)

    def fire_timers(self) -> None:
        """Let what is due fire, as the leader does."""
        self._index += 1
        self.machine.apply(self._index, self._planner.plan(self.clock_us, (FireTimers(),)))

    def json(self, method: str, target: str, body: Json | bytes = b"", status: int = 200) -> Json:
        """The parsed answer, whose status must be this."""
        answer = self.send(method, target, body)
        assert answer.status == status, answer
        assert answer.content_type == "application/json"
        parsed: Json = json.loads(answer.body)
        return parsed

    def record(
        self, method: str, target: str, body: Json | bytes = b"", status: int = 200
    ) -> dict[str, Json]:
        """A parsed answer that is an object."""
        parsed = self.json(method, target, body, status)
        assert isinstance(parsed, dict), parsed
        return parsed

    def records(
        self, method: str, target: str, body: Json | bytes = b"", status: int = 200
    ) -> list[dict[str, Json]]:
        """A parsed answer that is an array of objects."""
        return objects(self.json(method, target, body, status))

    def push(self, *names: str, queue: str = "q", partition: str = "p") -> list[dict[str, Json]]:
        items: list[Json] = [
            {"queue": queue, "partition": partition, "transactionId": name, "payload": {"n": name}}
            for name in names
        ]
        return self.records("POST", "/api/v1/push", {"items": items}, 201)

    def pop(self, queue: str = "q", **parameters: str | int) -> list[dict[str, Json]]:
        """Messages of a pop."""
        query = "&".join(f"{name}={value}" for name, value in parameters.items())
        answer = self.send("GET", f"/api/v1/pop/queue/{queue}?{query}")
        if answer.status == 204:
            assert answer.body == b""
            return []
        assert answer.status == 200, answer
        return objects(json.loads(answer.body)["messages"])

    def ack(self, message: dict[str, Json], **fields: Json) -> dict[str, Json]:
        """One ack of a popped message."""
        body: dict[str, Json] = {
            "transactionId": message["transactionId"],
            "partitionId": message["partitionId"],
            "leaseId": message["leaseId"],
            "consumerGroup": None,
            "error": None,
            **fields,
        }
        (item,) = self.records("POST", "/api/v1/ack", body)
        return item

    def records_of_dlq(self, query: str = "") -> list[dict[str, Json]]:
        """Dead letters."""
        return objects(self.record("GET", f"/api/v1/dlq?{query}")["messages"])


def objects(value: Json) -> list[dict[str, Json]]:
    """An array of objects."""
    assert isinstance(value, list), value
    found = [item for item in value if isinstance(item, dict)]
    assert len(found) == len(value), value
    return found
