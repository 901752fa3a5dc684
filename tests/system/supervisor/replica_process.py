"""One replica as a process: a heartbeat a poll, and a line about what it would run.

`python replica_process.py PORT TTL_S POLL_S TARGET FILE`; SIGTERM makes it leave and end.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time

import trio

from atleastonce.system.client import AsyncClient, ClientOptions, Endpoint
from atleastonce.system.supervisor.core.coordination import name_scope, share
from atleastonce.system.supervisor.linux import die_with_parent
from atleastonce.system.supervisor.logbook import Logbook
from atleastonce.system.supervisor.replicas import Replicas, ReplicaSettings

CALL_S = 0.5


async def run(port: int, ttl_s: float, poll_s: float, target: int, path: str) -> None:
    endpoint = Endpoint("127.0.0.1", port)
    client = AsyncClient([endpoint], ClientOptions(try_timeout_s=CALL_S))
    scope = name_scope([str(endpoint)], "workers", ["jobs"])
    settings = ReplicaSettings(round(ttl_s * 1e6), CALL_S)
    replicas = Replicas(client, [scope], settings, Logbook("master"))
    fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    with trio.open_signal_receiver(signal.SIGTERM) as signals:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(poll, replicas, scope, poll_s, target, fd)
            async for _ in signals:
                break
            nursery.cancel_scope.cancel()
        await replicas.leave()
    await client.aclose()


async def poll(replicas: Replicas, scope: str, poll_s: float, target: int, fd: int) -> None:
    while True:
        heard = await replicas.heartbeat()
        view = replicas.view(scope)
        if view is not None:
            line = {
                "t_ns": time.monotonic_ns(),
                "instance": replicas.instance,
                "heard": heard,
                "members": view.members,
                "share": share(target, 0, view),
            }
            os.write(fd, json.dumps(line).encode() + b"\n")
        await trio.sleep(poll_s)


if __name__ == "__main__":
    die_with_parent(signal.SIGKILL)
    trio.run(
        run, int(sys.argv[1]), float(sys.argv[2]), float(sys.argv[3]), int(sys.argv[4]), sys.argv[5]
    )
