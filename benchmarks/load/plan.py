"""What one generator process is to do, and what it found."""

from __future__ import annotations

from typing import Literal

import msgspec

System = Literal["ours", "redis"]
Kind = Literal["push", "pop"]


class LoadPlan(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One measurement.

    Attributes:
        system: Whose protocol to speak.
        port: On 127.0.0.1.
        kind: "push" sends messages; "pop" claims and acknowledges what is there.
        batch: Messages in one request.
        connections: Each has at most one request on its way.
        warmup_s: Not counted, in front of the rest.
        measure_s: Counted.
        rate: Requests a second by the clock, each timed from when it was due; None sends the next
            request as soon as a connection is free.
        payload_bytes: Of each message.
        partitions: Over which requests rotate.
        spread: Whether each message of a request goes to another partition.
        queue: Its name.
        server_pids: Whose CPU time to take.
        tag: Makes the transaction ids of this plan its own.
    """

    system: System
    port: int
    kind: Kind
    batch: int
    connections: int
    warmup_s: float
    measure_s: float
    rate: float | None
    payload_bytes: int
    partitions: int
    queue: str
    server_pids: tuple[int, ...]
    tag: str
    spread: bool = False


class LoadResult(msgspec.Struct, frozen=True):
    """What a measurement found.

    Attributes:
        messages: Acknowledged in the counted time.
        all_messages: Acknowledged since the start, warm-up included.
        requests: Answered in the counted time; a pop and its ack are one.
        elapsed_s: The counted time.
        per_s: Messages a second.
        p50_ms: Of a request, or of a pop and its ack together.
        p99_ms: The same.
        worst_ms: The same.
        server_cpu_us: CPU time for each message, for each of `server_pids`.
        generator_cpu_us: The generator's own CPU time for each message.
        late: Requests that were due in the counted time and had no free connection for over 1 ms.
    """

    messages: int
    all_messages: int
    requests: int
    elapsed_s: float
    per_s: float
    p50_ms: float
    p99_ms: float
    worst_ms: float
    server_cpu_us: tuple[float, ...]
    generator_cpu_us: float
    late: int
