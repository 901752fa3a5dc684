"""Measure everything, one after the other: `python -m benchmarks [NAME …]`."""

from __future__ import annotations

import importlib
import sys

from .peer_runs import PeersMissingError

NAMES = (
    "failover",
    "hand_back",
    "scale_up",
    "worker_memory",
    "checker",
    "drain",
    "broker_machine",
    "node_http",
    "broker_load",
    "partitions",
    "many_partitions",
    "request_stages",
    "restart",
    "raft_simulation",
)


def main() -> int:
    """Run the named benchmarks, or all of them; 2 for an unknown name or a missing peer."""
    names = sys.argv[1:] or list(NAMES)
    for name in names:
        if name not in NAMES:
            print(f"unknown benchmark {name!r}; choose from: {', '.join(NAMES)}", file=sys.stderr)
            return 2
    sys.argv[1:] = []
    for name in names:
        try:
            importlib.import_module(f"benchmarks.{name}").main()
        except PeersMissingError as error:
            print(f"{name}: {error}", file=sys.stderr)
            return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
