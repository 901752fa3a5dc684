"""What a soak expects beyond the delivery contract, as data."""

from __future__ import annotations

from typing import Final

import msgspec

from .contract import Contract, ContractError
from .verdict import Json

SOAK_RULES: Final[dict[str, str]] = {
    "soak-jobs": "the jobs that workers saw are not those whose dispatch was acknowledged",
    "soak-ends": "a bad job was not given up exactly once, or another not completed exactly once",
    "soak-failed": "give-up records, dead letters or failed-job rows are not the bad jobs",
    "growth": "a process held more memory in the last third of the load than in the first",
}


class GrowthBound(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How much a kind of process may grow: last third <= first third x factor + the rest.

    Attributes:
        factor: Of the median of the first third.
        extra_mib: Beyond that, whatever the median is.
        window_mib: Beyond that, because a window that the process keeps by design was fuller then.
    """

    factor: float
    extra_mib: float = 8.0
    window_mib: float = 0.0


class SoakContract(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The contract of a soak; `scenario.json` stores it whole.

    Attributes:
        attempts: The delivery contract, which holds here too.
        load_s: Seconds of load, from the first dispatch; its thirds are compared.
        jobs: So many jobs were to be dispatched.
        bad: Ids of those that always fail.
        growth: Bounds by the name of a process; `worker` stands for the median worker.
        samples_min: A third with fewer samples of a kind is not judged.
        restarts: So many times new code was put in place.
    """

    attempts: Contract
    load_s: float
    jobs: int
    bad: tuple[str, ...]
    growth: dict[str, GrowthBound]
    samples_min: int = 3
    restarts: int = 1

    def to_json(self) -> dict[str, Json]:
        """Return the contract as the object that `scenario.json` holds."""
        plain: dict[str, Json] = msgspec.to_builtins(self)
        return plain


def soak_contract_from_json(plain: dict[str, Json]) -> SoakContract:
    """Turn the object that `scenario.json` holds back into a contract; raises ContractError."""
    try:
        return msgspec.convert(plain, SoakContract)
    except msgspec.ValidationError as error:
        raise ContractError(f"soak contract: {error}") from error
