"""What one push, pop and ack cost in the pure broker: route, plan, apply and render."""

from __future__ import annotations

import json
import time
from collections.abc import Callable

from atleastonce.system.broker.commands import Command
from atleastonce.system.broker.machine import Machine
from atleastonce.system.broker.planner import Planner
from atleastonce.system.http.routes import Answer, PopRequest, Write, render, route

PARTITIONS = 16
MESSAGES = 20_000
POP_BATCH = 4
REPLICAS = 3
PAYLOAD = {
    "job": "sleep",
    "id": "018f6b0e-0000-7000-8000-000000000000",
    "attempts": 0,
    "tries": 3,
    "partition": "p-0007",
    "data": {"ms": 25, "text": "x" * 120},
}


class Line:
    """One node's whole path of a request, without sockets, disk or peers."""

    def __init__(self) -> None:
        self.machine = Machine()
        self.planner = Planner(lambda count: bytes(range(count)))
        self.clock_us = 1_800_000_000_000_000
        self.index = 0
        self.entries: list[tuple[int, bytes]] = []

    def serve(self, method: str, target: str, body: bytes, request_id: str) -> Answer:
        """Carry one request from its bytes to its answer."""
        request = route(method, target, {}, body, request_id)
        assert isinstance(request, Write | PopRequest), request
        command: Command = request.command
        if isinstance(request, PopRequest):
            assert self.machine.can_pop(request.command, self.clock_us)
        self.clock_us += 50
        self.index += 1
        data = self.planner.plan(self.clock_us, (command,))
        self.entries.append((self.index, data))
        (reply,) = self.machine.apply(self.index, data)
        return render(request, reply)


def timed(count: int, act: Callable[[int], None]) -> float:
    """Microseconds for each of `count` calls."""
    start = time.perf_counter_ns()
    for number in range(count):
        act(number)
    return (time.perf_counter_ns() - start) / count / 1000


def main() -> None:
    """Print one figure a line."""
    line = Line()
    bodies = [
        json.dumps(
            {
                "items": [
                    {
                        "queue": "jobs",
                        "partition": f"p-{number % PARTITIONS:04d}",
                        "transactionId": f"018f6b0e-0000-7000-8000-{number:012x}",
                        "payload": PAYLOAD,
                    }
                ]
            }
        ).encode()
        for number in range(MESSAGES)
    ]
    target = (
        f"/api/v1/pop/queue/jobs?consumerGroup=workers&subscriptionMode=all&batch={POP_BATCH}"
        f"&partitions={PARTITIONS}&leaseSeconds=8&wait=true&timeout=5000"
    )
    line.serve("GET", target, b"", "first-contact")
    push_us = timed(MESSAGES, lambda n: _push(line, bodies[n]))
    print(f"push of one item       {push_us:6.1f} µs")
    popped: list[list[dict[str, str]]] = []
    pops = MESSAGES // POP_BATCH // 2
    pop_us = timed(PARTITIONS, lambda _: popped.append(_pop(line, target)))
    ack_us = 0.0
    for _ in range(pops // PARTITIONS):
        acks = [_ack_bodies(messages) for messages in popped]
        singles = [body for bodies_of_pop in acks for body in bodies_of_pop]
        ack_us += timed(len(singles), lambda n, own=singles: _ack(line, own[n]))  # type: ignore[misc]
        popped.clear()
        pop_us += timed(PARTITIONS, lambda _: popped.append(_pop(line, target)))
    rounds = pops // PARTITIONS
    print(f"pop of {POP_BATCH} messages      {pop_us / (rounds + 1):6.1f} µs (decoded here)")
    print(f"ack of one message     {ack_us / rounds:6.1f} µs")
    replica = Machine()
    replay_us = timed(len(line.entries), lambda n: _apply(replica, *line.entries[n]))
    print(f"apply on a follower    {replay_us:6.1f} µs an entry, {len(line.entries)} entries")
    assert replica.digest() == line.machine.digest()


def _push(line: Line, body: bytes) -> None:
    answer = line.serve("POST", "/api/v1/push", body, f"push-{line.index}")
    assert answer.status == 201


def _pop(line: Line, target: str) -> list[dict[str, str]]:
    answer = line.serve("GET", target, b"", f"pop-{line.index}")
    messages: list[dict[str, str]] = json.loads(answer.body)["messages"]
    return messages


def _ack_bodies(messages: list[dict[str, str]]) -> list[bytes]:
    return [
        json.dumps(
            {
                "transactionId": message["transactionId"],
                "partitionId": message["partitionId"],
                "leaseId": message["leaseId"],
                "consumerGroup": "workers",
                "status": "completed",
            }
        ).encode()
        for message in messages
    ]


def _ack(line: Line, body: bytes) -> None:
    answer = line.serve("POST", "/api/v1/ack", body, f"ack-{line.index}")
    assert answer.status == 200


def _apply(machine: Machine, index: int, data: bytes) -> None:
    machine.apply(index, data)


if __name__ == "__main__":
    main()
