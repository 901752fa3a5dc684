"""A producer's loop, the same for every system: as fast as it can, in bulk, or paced.

Imports nothing but the standard library: the peers' and our own producers all load it.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable

Arguments = tuple[str, int, int, float]
"""What the job body is called with: directory, number, sent_ns, sleep_ms."""

BULK = 100


def produce(
    plan: dict[str, object],
    send: Callable[[Arguments], object],
    send_bulk: Callable[[list[Arguments]], object],
) -> None:
    """Send the jobs of a plan and print what it took, as one line of JSON.

    Args:
        plan: `directory`, `first` and `count` (numbers), `sleep_ms`, `rate` (jobs a second, 0 is
            as fast as it can), `bulk`.
        send: Sends one job and returns when the backend has it.
        send_bulk: Sends up to 100.
    """
    directory, first = str(plan["directory"]), int(str(plan["first"]))
    count, rate = int(str(plan["count"])), float(str(plan["rate"]))
    sleep_ms = float(str(plan["sleep_ms"]))
    late_ns = 0
    cpu_s, began_ns = time.process_time(), time.monotonic_ns()
    if plan["bulk"]:
        for start in range(first, first + count, BULK):
            now_ns = time.monotonic_ns()
            numbers = range(start, min(start + BULK, first + count))
            send_bulk([(directory, number, now_ns, sleep_ms) for number in numbers])
    else:
        for index in range(count):
            if rate:
                due_ns = began_ns + int(index * 1e9 / rate)
                ahead_ns = due_ns - time.monotonic_ns()
                if ahead_ns > 0:
                    time.sleep(ahead_ns / 1e9)
                late_ns = max(late_ns, time.monotonic_ns() - due_ns)
            send((directory, first + index, time.monotonic_ns(), sleep_ms))
    ended_ns = time.monotonic_ns()
    print(
        json.dumps(
            {
                "began_ns": began_ns,
                "ended_ns": ended_ns,
                "cpu_s": time.process_time() - cpu_s,
                "late_ms_max": late_ns / 1e6,
            }
        )
    )
