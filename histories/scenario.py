"""The scenario of a run: everything needed to judge it again or to repeat it."""

from __future__ import annotations

from pathlib import Path

import msgspec

from .errors import FORMAT_VERSION, Damage, DamagedEvidenceError, UnknownVersionError
from .ops import Json


class Scenario(msgspec.Struct, frozen=True, kw_only=True):
    """`scenario.json`.

    Attributes:
        v: Format version.
        workload: Name of the workload.
        nemesis: Names of the nemeses, joined with commas.
        seed: Seed of workload and plan.
        settings: Settings in force, defaults included.
        bugs: Planted defects in force.
        versions: Versions of the parts.
        origin_ns: CLOCK_MONOTONIC at the start of the run.
        host: Name of the host.
        boot: Boot id of the host.
        plan: Planned faults, each an object with at least `id`, `kind`, `target`.
        contract: The resolved contract.
    """

    workload: str
    nemesis: str
    seed: int
    origin_ns: int
    host: str
    boot: str
    settings: dict[str, Json] = {}
    bugs: list[str] = []
    versions: dict[str, str] = {}
    plan: list[dict[str, Json]] = []
    contract: dict[str, Json] = {}
    v: int = FORMAT_VERSION


def write_scenario(path: Path | str, scenario: Scenario) -> None:
    """Write `scenario.json`, indented for people."""
    text = msgspec.json.format(msgspec.json.encode(scenario), indent=2)
    Path(path).write_bytes(text + b"\n")


def read_scenario(path: Path | str) -> Scenario:
    """Read `scenario.json`.

    Raises:
        FileNotFoundError: There is none.
        UnknownVersionError: Another format version.
        DamagedEvidenceError: Not a scenario.
    """
    data = Path(path).read_bytes()
    try:
        version = msgspec.json.decode(data, type=dict[str, object]).get("v")
        if version != FORMAT_VERSION:
            raise UnknownVersionError(path, version)
        return msgspec.json.decode(data, type=Scenario)
    except msgspec.MsgspecError as error:
        raise DamagedEvidenceError(Damage(str(path), 0, str(error))) from error
