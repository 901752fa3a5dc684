"""Our producer: `python -m benchmarks.jobs.own_producer PLAN` (JSON)."""

from __future__ import annotations

import json
import sys

from atleastonce.system.client import SyncClient, calls
from atleastonce.system.jobs.dispatch import Dispatch, prepare_dispatch
from atleastonce.system.jobs.settings import ConnectionSettings
from atleastonce.system.jobs.sync_dispatcher import SyncDispatcher

from ..own_system import PARTITIONS, QUEUE
from ..peers.producing import Arguments, produce


def main() -> None:
    """Dispatch the jobs of a plan to the node that it names."""
    plan = json.loads(sys.argv[1])
    host, port = plan["endpoint"]
    settings = ConnectionSettings(endpoints=((host, port),), queue=QUEUE, partitions=PARTITIONS)
    client = SyncClient(settings.client_endpoints(), settings.client_options())
    dispatcher = SyncDispatcher(client)

    def prepare(job: Arguments) -> Dispatch:
        return prepare_dispatch(settings, "run", job)

    produce(
        plan,
        lambda job: dispatcher.send(prepare(job)),
        lambda jobs: client.call(calls.push([prepare(job).item() for job in jobs])),
    )
    client.close()


if __name__ == "__main__":
    main()
