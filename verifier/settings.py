"""The typed registry of `--set KEY=VALUE`.

One record holds every setting with its type, its range, its default and one sentence; `verify
list` prints this registry, and a value outside its range never reaches a process.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta
from msgspec import inspect as shapes

from .errors import UsageError, unknown_name

Value = bool | int | float | str


def _about(group: str, sentence: str) -> dict[str, str]:
    return {"group": group, "sentence": sentence}


class Settings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Every setting of a run, resolved.

    Durations are in the unit that ends the name; shares are fractions of all dispatches, and what
    the named shares leave over are short jobs.
    """

    disk: Annotated[
        Literal["real", "lossy"],
        Meta(extra=_about("system", "lossy: a killed node loses the bytes that it has not synced")),
    ] = "real"
    election_ms_min: Annotated[
        int, Meta(ge=50, le=60_000, extra=_about("system", "shortest election timeout"))
    ] = 400
    election_ms_max: Annotated[
        int, Meta(ge=60, le=120_000, extra=_about("system", "longest election timeout"))
    ] = 800
    heartbeat_ms: Annotated[
        int, Meta(ge=5, le=20_000, extra=_about("system", "pause between a leader's heartbeats"))
    ] = 100
    checkpoint_ms: Annotated[
        int,
        Meta(ge=50, le=3_600_000, extra=_about("system", "pause between a node's checkpoints")),
    ] = 250
    base_port: Annotated[
        int,
        Meta(
            ge=0, le=65_000, extra=_about("system", "first of two ports a node; 0 takes free ones")
        ),
    ] = 0
    capture_mib: Annotated[
        int,
        Meta(ge=1, le=65_536, extra=_about("system", "a capture keeps so much, the newest")),
    ] = 64
    partitions: Annotated[
        int, Meta(ge=1, le=64, extra=_about("system", "partitions of the queue"))
    ] = 16
    prefetch: Annotated[
        int, Meta(ge=1, le=100, extra=_about("system", "jobs that a worker takes at once"))
    ] = 4
    ack_async: Annotated[
        bool, Meta(extra=_about("system", "send a job's ack while the next one runs"))
    ] = True
    ack_batch: Annotated[
        int, Meta(ge=1, le=100, extra=_about("system", "finished jobs acked in one request"))
    ] = 1
    pop_ahead: Annotated[
        bool, Meta(extra=_about("system", "ask for the next batch while the last job runs"))
    ] = True
    retry_after_s: Annotated[
        float,
        Meta(
            ge=3, le=600, extra=_about("system", "lease: a job unheard of for so long runs again")
        ),
    ] = 8.0
    block_for_s: Annotated[
        float,
        Meta(
            ge=0, le=60, extra=_about("system", "an idle worker's pop waits so long at the broker")
        ),
    ] = 1.0
    try_timeout_s: Annotated[
        float,
        Meta(
            ge=0.1, le=60, extra=_about("system", "a client gives a node so long before the next")
        ),
    ] = 2.0
    job_timeout_s: Annotated[
        int, Meta(ge=1, le=300, extra=_about("system", "longest run of one attempt"))
    ] = 5
    shutdown_grace_s: Annotated[
        float,
        Meta(
            ge=1, le=600, extra=_about("system", "a stopping supervisor waits so long for workers")
        ),
    ] = 10.0
    restart_backoff_s: Annotated[
        float,
        Meta(ge=0.01, le=60, extra=_about("system", "pause before a crashed worker is replaced")),
    ] = 0.2
    restart_backoff_max_s: Annotated[
        float,
        Meta(ge=0.01, le=600, extra=_about("system", "longest such pause, and an open circuit's")),
    ] = 5.0
    stable_after_s: Annotated[
        float,
        Meta(
            ge=0.1,
            le=600,
            extra=_about("system", "a worker that lived so long did not crash at once"),
        ),
    ] = 5.0

    not_consuming_after_s: Annotated[
        float,
        Meta(
            ge=0.1,
            le=600,
            extra=_about("system", "a worker whose pops failed for so long does not consume"),
        ),
    ] = 60.0
    memory_mib: Annotated[
        int,
        Meta(
            ge=0,
            le=1 << 20,
            extra=_about("system", "a worker that holds so much memory is replaced; 0 is no limit"),
        ),
    ] = 0

    producers: Annotated[
        int, Meta(ge=1, le=64, extra=_about("workload", "clients that dispatch jobs"))
    ] = 2
    share_long: Annotated[
        float, Meta(ge=0, le=1, extra=_about("workload", "share of jobs that take 1 to 3 s"))
    ] = 0.015
    share_flaky: Annotated[
        float,
        Meta(ge=0, le=1, extra=_about("workload", "share of jobs that fail once, then succeed")),
    ] = 0.08
    share_bad: Annotated[
        float,
        Meta(ge=0, le=1, extra=_about("workload", "share of jobs that always fail (tries 2)")),
    ] = 0.06
    share_delayed: Annotated[
        float, Meta(ge=0, le=1, extra=_about("workload", "share of jobs due 1 to 5 s later"))
    ] = 0.12
    share_overrun: Annotated[
        float,
        Meta(ge=0, le=1, extra=_about("workload", "share of jobs that sleep past their timeout")),
    ] = 0.005
    resend: Annotated[
        float,
        Meta(
            ge=0, le=1, extra=_about("workload", "share of dispatches sent again with the same ids")
        ),
    ] = 0.1
    resend_after_s_max: Annotated[
        float, Meta(ge=0, le=600, extra=_about("workload", "latest moment of that second sending"))
    ] = 5.0
    request_deadline_s: Annotated[
        float, Meta(ge=0.5, le=120, extra=_about("workload", "a dispatch is retried for so long"))
    ] = 10.0
    drain_deadline_s: Annotated[
        float, Meta(ge=1, le=3600, extra=_about("workload", "longest wait until nothing is left"))
    ] = 60.0
    drain_margin_s: Annotated[
        float,
        Meta(ge=0, le=600, extra=_about("workload", "quiet time beyond one lease before judging")),
    ] = 1.5
    clients_per_node: Annotated[
        int, Meta(ge=1, le=64, extra=_about("workload", "queue, log, claim: clients of each node"))
    ] = 2
    client_timeout_s: Annotated[
        float,
        Meta(
            ge=0.5, le=60, extra=_about("workload", "queue, log, claim: longest wait for an answer")
        ),
    ] = 6.0
    lease_s: Annotated[int, Meta(ge=1, le=60, extra=_about("workload", "queue: a pop's lease"))] = 3
    reack: Annotated[
        float,
        Meta(ge=0, le=1, extra=_about("workload", "queue: share of acks asked for once more")),
    ] = 0.1
    hold: Annotated[
        float,
        Meta(ge=0, le=1, extra=_about("workload", "queue: share of deliveries that are held long")),
    ] = 0.03
    hang_up: Annotated[
        float,
        Meta(ge=0, le=1, extra=_about("workload", "queue: share of pops that hang up early")),
    ] = 0.1
    txn: Annotated[
        bool,
        Meta(extra=_about("workload", "log: each send is one transaction of 1 to 4 records")),
    ] = False
    settle_s: Annotated[
        float,
        Meta(ge=0, le=600, extra=_about("workload", "queue, log, claim: pause before the end")),
    ] = 3.0
    lane_scale: Annotated[
        float,
        Meta(
            ge=0,
            le=10,
            extra=_about("workload", "share of a lane's reference times; 0 is the lane's own"),
        ),
    ] = 0.0

    down_s: Annotated[
        float,
        Meta(ge=0.1, le=600, extra=_about("nemesis", "a killed or stopped process stays down")),
    ] = 2.0
    pause_s_min: Annotated[
        float, Meta(ge=0.1, le=600, extra=_about("nemesis", "shortest pause of a process"))
    ] = 1.5
    pause_s_max: Annotated[
        float, Meta(ge=0.1, le=600, extra=_about("nemesis", "longest pause of a process"))
    ] = 3.0
    first_s: Annotated[
        float, Meta(ge=0.1, le=3600, extra=_about("nemesis", "the first fault begins then"))
    ] = 3.0


@dataclass(frozen=True, slots=True)
class Setting:
    """One row of the registry.

    Attributes:
        name: The key of `--set`.
        group: system, workload or nemesis.
        allowed: The type and range in words.
        default: Its value when nobody sets it.
        sentence: What it does.
    """

    name: str
    group: str
    allowed: str
    default: Value
    sentence: str


def _described(field: shapes.Field) -> Setting:
    shape = field.type
    assert isinstance(shape, shapes.Metadata), f"setting {field.name} has no sentence"
    inner, extra = shape.type, shape.extra or {}
    if isinstance(inner, shapes.LiteralType):
        allowed = " or ".join(str(value) for value in inner.values)
    elif isinstance(inner, shapes.BoolType):
        allowed = "true or false"
    else:
        assert isinstance(inner, shapes.IntType | shapes.FloatType), f"setting {field.name}"
        kind = "an integer" if isinstance(inner, shapes.IntType) else "a number"
        allowed = f"{kind} from {inner.ge:g} to {inner.le:g}"
    default = field.default
    assert isinstance(default, bool | int | float | str), f"setting {field.name}"
    return Setting(field.name, extra["group"], allowed, default, extra["sentence"])


def _registry() -> dict[str, Setting]:
    shape = shapes.type_info(Settings)
    assert isinstance(shape, shapes.StructType), shape
    return {field.name: _described(field) for field in shape.fields}


REGISTRY: Final = _registry()

_TRUE: Final = frozenset({"1", "true", "yes", "on"})
_FALSE: Final = frozenset({"0", "false", "no", "off"})


def _split(pair: str) -> tuple[str, str]:
    key, equals, text = pair.partition("=")
    if not equals or not key:
        raise UsageError(f"--set {pair!r}: expected KEY=VALUE, for example prefetch=4")
    return key.strip(), text.strip()


def _read(setting: Setting, text: str) -> Value:
    """Turn text into the setting's type; the range is checked by the record."""
    try:
        if isinstance(setting.default, bool):
            if text.lower() not in _TRUE | _FALSE:
                raise ValueError(text)
            return text.lower() in _TRUE
        if isinstance(setting.default, int):
            return int(text)
        if isinstance(setting.default, float):
            return float(text)
    except ValueError:
        raise refusal(setting.name, text) from None
    return text


def refusal(name: str, value: object) -> UsageError:
    """Build the one line for a value that a setting does not take."""
    return UsageError(f"setting {name}={value} is not allowed; it takes {REGISTRY[name].allowed}")


def parse_settings(pairs: Iterable[str]) -> Settings:
    """Resolve `KEY=VALUE` pairs over the defaults; the last of a repeated key holds.

    Raises:
        UsageError: A key is unknown, or a value is not of its type or outside its range.
    """
    values: dict[str, Value] = {}
    for pair in pairs:
        key, text = _split(pair)
        if key not in REGISTRY:
            raise unknown_name("setting", key, REGISTRY)
        value = _read(REGISTRY[key], text)
        try:
            msgspec.convert({key: value}, Settings)
        except msgspec.ValidationError:
            raise refusal(key, text) from None
        values[key] = value
    settings = msgspec.convert(values, Settings)
    _check_together(settings)
    return settings


def _check_together(s: Settings) -> None:
    """Refuse values that are each allowed but do not fit together."""
    rules = (
        (s.election_ms_min < s.election_ms_max, "election_ms_min", "below election_ms_max"),
        (
            s.heartbeat_ms * 2 <= s.election_ms_min,
            "heartbeat_ms",
            "at most half of election_ms_min",
        ),
        (s.job_timeout_s < s.retry_after_s, "job_timeout_s", "below retry_after_s"),
        (s.job_timeout_s < s.shutdown_grace_s, "job_timeout_s", "below shutdown_grace_s"),
        (
            s.restart_backoff_s <= s.restart_backoff_max_s,
            "restart_backoff_s",
            "at most restart_backoff_max_s",
        ),
        (s.pause_s_min <= s.pause_s_max, "pause_s_min", "at most pause_s_max"),
    )
    for holds, name, allowed in rules:
        if not holds:
            raise _unfit(s, name, allowed)
    shares = s.share_long + s.share_flaky + s.share_bad + s.share_delayed + s.share_overrun
    if shares > 1:
        raise UsageError(
            f"the shares of the mix add up to {shares:g}; they must stay at or below 1"
        )


def _unfit(settings: Settings, name: str, allowed: str) -> UsageError:
    value, other = getattr(settings, name), allowed.rsplit(" ", 1)[-1]
    limit = f"{other} is {getattr(settings, other):g}"
    return UsageError(f"setting {name}={value:g} does not fit; it must be {allowed} ({limit})")
