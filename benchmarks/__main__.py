"""Measure everything, one after the other: `python -m benchmarks [NAME …]`.

One named benchmark may be followed by its own options: `python -m benchmarks jobs --quick`.
"""

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
    "jobs",
    "broker_machine",
    "node_http",
    "broker_load",
    "partitions",
    "many_partitions",
    "request_stages",
    "restart",
    "faults",
    "levels",
    "links",
    "raft_simulation",
    "fault_latency",
)


def main() -> int:
    """Run the named benchmarks, or all of them; 2 for an unknown name or a missing peer."""
    words = sys.argv[1:]
    options_at = next((i for i, word in enumerate(words) if word.startswith("-")), len(words))
    names, options = words[:options_at], words[options_at:]
    if options and len(names) != 1:
        print(f"{options[0]} stands alone: name one benchmark before its options", file=sys.stderr)
        return 2
    names = names or list(NAMES)
    for name in names:
        if name not in NAMES:
            print(f"unknown benchmark {name!r}; choose from: {', '.join(NAMES)}", file=sys.stderr)
            return 2
    sys.argv[1:] = options
    status = 0
    for name in names:
        try:
            status = importlib.import_module(f"benchmarks.{name}").main() or status
        except PeersMissingError as error:
            print(f"{name}: {error}", file=sys.stderr)
            return 2
    return status


if __name__ == "__main__":
    sys.exit(main())
