"""The files that tell each process of a run what it is, written before any of them starts."""

from __future__ import annotations

import os
import secrets
from collections.abc import Sequence
from pathlib import Path

from ..system.node.timeofday import write_offset
from .config import CODE_VERSION, node_config, supervisor_config, write_config
from .network import Network
from .scenario import Scenario
from .store import RunPaths
from .supervised import Supervised


def write_configs(
    scenario: Scenario, run: RunPaths, network: Network, supervisors: Sequence[Supervised]
) -> None:
    """Write the nodes' token, every configuration, and the version of the jobs' code."""
    token = os.open(run.token, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(token, "w", encoding="ascii") as file:
        file.write(secrets.token_hex(32))
    for name in scenario.node_names:
        config = node_config(scenario, run, name, network)
        write_config(run.node_config(name), config)
        if config.time_of_day_file is not None:
            write_offset(Path(config.time_of_day_file), 0)
    run.code_version.write_text(CODE_VERSION, encoding="ascii")
    for each in supervisors:
        each.state.mkdir(mode=0o700, exist_ok=True)
        write_config(run.config_of(each.name), supervisor_config(scenario, run, network, each.name))
