"""The contract: what a system promises, as data."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Final, Literal

import msgspec

from .verdict import Json

RULES: Final[dict[str, str]] = {
    "lost": "a dispatch was acknowledged, and the job neither completed nor was given up",
    "phantom": "a job ran that nobody dispatched, or whose dispatch certainly failed",
    "duplicate-dispatch": "one acknowledged dispatch became two queued jobs",
    "completed-twice": "a job completed more than once, though the first ack could not have failed",
    "overlap": "two runs of one job intersect",
    "uncharged-hand-back": "a job held but never started came back with its number raised",
    "attempt-number": "a pickup carries another number than runs and charges explain",
    "hand-back-late": "a job that a dead worker held unstarted was not delivered again in time",
    "too-few-tries": "a job was given up before its tries were used up",
    "too-many-tries": "a job ran more often than its tries allow",
    "both-ended": "a job completed and was given up",
    "store-mismatch": "dead letters, failed-job store and give-up records name different jobs",
    "early": "a run started before its due time or before its back-off elapsed",
    "late": "a ready job waited past the bound while a worker was free",
    "order": "first attempts of one partition started out of order",
    "timeout-not-enforced": "a run outlived its timeout plus grace",
    "process-leaked": "a worker outlived its supervisor, or the end of the run",
    "stale-code": "a run after an acknowledged restart reports the old code version",
    "stall": "jobs were ready and workers free, and nothing started for longer than the bound",
    "pace": "while jobs waited, the workers' pace fell below the contract's floor",
}

NEVER_WAIVED: Final = ("lost", "overlap", "attempt-number", "uncharged-hand-back")


class Charges(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What may raise an attempt number besides a run that started."""

    lease_lost: bool = True
    unread_batch: bool = True


class Clauses(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the contract allows beyond the plain rules."""

    overlap_under_long_pause: bool = False
    duplicate_after_lost_ack: bool = True
    ack_before_next_job: bool = True
    early_give_up_causes: tuple[str, ...] = ("deadline", "exception-limit", "fail-on-timeout")


class FaultKinds(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which kinds of faults take away what."""

    node: tuple[str, ...] = ()
    lost: tuple[str, ...] = ()
    pause: tuple[str, ...] = ()
    worker: tuple[str, ...] = ()
    supervisor: tuple[str, ...] = ()
    stepwise: tuple[str, ...] = ()


class Bounds(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Bounds in seconds, counts and shares; see the comments in the TOML file."""

    workers: int = 4
    prefetch: int = 4
    lease_s: float = 8.0
    ack_s: float = 0.5
    hand_back_s: float = 3.0
    late_s: float = 3.0
    stall_s: float = 5.0
    recovery_s: float = 3.0
    timeout_grace_s: float = 2.0
    leak_s: float = 2.0
    clock_slack_s: float = 0.005
    clock_slew: float = 0.005
    pace_window_s: float = 5.0
    pace_age_s: float = 3.0
    pace_overhead_s: float = 0.1
    pace_floor: float = 0.5
    starved_wait: float = 0.5
    starved_slowdown: float = 5.0
    starved_own: float = 0.5


class Contract(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A resolved contract; `scenario.json` stores it whole."""

    name: str
    guarantee: Literal["at-least-once", "at-most-once", "effectively-once"]
    order: Literal["partition", "none"] = "none"
    witnesses_max: int = 20
    charges: Charges = Charges()
    clauses: Clauses = Clauses()
    faults: FaultKinds = FaultKinds()
    bounds: Bounds = Bounds()
    waivers: dict[str, str] = {}
    force_waivers: bool = False

    def __post_init__(self) -> None:
        for rule in self.waivers:
            if rule not in RULES:
                raise ContractError(f"unknown rule {rule!r} in waivers; choose from: {_names()}")
            if rule in NEVER_WAIVED and not self.force_waivers:
                raise ContractError(f"rule {rule!r} is never waived by default")
        if self.bounds.workers < 1 or self.bounds.prefetch < 1:
            raise ContractError("workers and prefetch must be at least 1")

    def to_json(self) -> dict[str, Json]:
        """Return the contract as the object that `scenario.json` holds."""
        plain: dict[str, Json] = msgspec.to_builtins(self)
        return plain


class ContractError(ValueError):
    """A contract that cannot be read; the message names the value and the choices."""


def load_contract(name_or_path: str | Path = "atleastonce", **bounds: float) -> Contract:
    """Load a shipped contract by name, or any by path, and override bounds by name.

    Raises:
        ContractError: No such contract, a value that it may not hold, or an unknown bound.
    """
    path = Path(name_or_path)
    if path.suffix != ".toml":
        path = _folder() / f"{name_or_path}.toml"
    try:
        plain = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise ContractError(
            f"no contract {str(name_or_path)!r}; choose from: {_shipped()}"
        ) from error
    except tomllib.TOMLDecodeError as error:
        raise ContractError(f"{path}: {error}") from error
    unknown = sorted(set(bounds) - set(Bounds.__struct_fields__))
    if unknown:
        known = ", ".join(Bounds.__struct_fields__)
        raise ContractError(f"unknown bound {unknown[0]!r}; choose from: {known}")
    plain["bounds"] = {**plain.get("bounds", {}), **bounds}
    return contract_from_json(plain, str(path))


def contract_from_json(plain: dict[str, Json], where: str = "contract") -> Contract:
    """Turn the object that `scenario.json` holds back into a contract; raises ContractError."""
    try:
        return msgspec.convert(plain, Contract)
    except msgspec.ValidationError as error:
        raise ContractError(f"{where}: {error}") from error


def _folder() -> Path:
    return Path(__file__).parent / "contracts"


def _shipped() -> str:
    return ", ".join(sorted(path.stem for path in _folder().glob("*.toml")))


def _names() -> str:
    return ", ".join(RULES)
