"""Jobs as messages: the `_job` object in a message's payload, its copies and its digest."""

from __future__ import annotations

import hashlib
from typing import Final, Literal

import msgspec

from .links import Chain

JOB_KEY: Final = "_job"
_FOREVER_S: Final = float("inf")


class Deadline(msgspec.Struct, frozen=True):
    """Until when a job may be tried, fixed when it was dispatched.

    Attributes:
        until_us: The instant, microseconds since 1970.
        span_us: How far ahead of its dispatch that was.
    """

    until_us: int
    span_us: int


class UniqueLock(msgspec.Struct, frozen=True, omit_defaults=True):
    """The lock that a job was queued with; its owner is the job's id.

    Attributes:
        name: The lock's name.
        until: When it is freed: when the job has ended, or before it starts.
    """

    name: str
    until: Literal["end", "processing"] = "end"


class JobBody(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A job as it travels.

    Attributes:
        job: Name that the application registered it under.
        id: The job's id, a UUID unless the dispatcher chose another.
        attempts: Attempts that earlier messages of this job have used up.
        partition: Partition that it is pushed to, and every copy of it.
        tries: Tries of this job; None asks the job's registration.
        timeout_s: Timeout of this job; None asks the job's registration.
        backoff_s: Back-off of this job; None asks the job's registration.
        data: What the handler is called with, as JSON; sealed, if `encrypted`.
        chain: What comes after it, when it is a job of a chain.
        batch: The batch that it is a member of.
        encrypted: Whether `data` is sealed; see `encryption`.
        deadline: Until when it may be tried; overrides its tries.
        unique: The lock that keeps others like it out.
    """

    job: str
    id: str
    data: msgspec.Raw
    attempts: int = 0
    partition: str | None = None
    tries: int | None = None
    timeout_s: float | None = None
    backoff_s: tuple[float, ...] | None = None
    chain: Chain | None = None
    batch: str | None = None
    encrypted: bool = False
    deadline: Deadline | None = None
    unique: UniqueLock | None = None


class Envelope(msgspec.Struct, frozen=True):
    """A message's payload: the job and nothing else that the driver reads."""

    body: JobBody = msgspec.field(name=JOB_KEY)


class NotAJobError(ValueError):
    """A payload that carries no job; the message says what is wrong with it."""


_ENCODER = msgspec.json.Encoder()
_SORTED_ENCODER = msgspec.json.Encoder(order="deterministic")
_ENVELOPE_DECODER = msgspec.json.Decoder(Envelope, strict=False)
_STRICT_DECODER = msgspec.json.Decoder(Envelope)


def decode_job(payload: bytes | msgspec.Raw, *, strict: bool = False) -> JobBody:
    """Read the job out of a message's payload.

    Args:
        payload: JSON.
        strict: Whether a number in a string, such as `"timeout_s": "3"`, is refused.

    Raises:
        NotAJobError: There is none, or it is malformed.
    """
    decoder = _STRICT_DECODER if strict else _ENVELOPE_DECODER
    try:
        body = decoder.decode(payload).body
    except msgspec.DecodeError as error:
        raise NotAJobError(f"not a job: {error}") from error
    except UnicodeDecodeError as error:
        raise NotAJobError(f"not a job: {error}") from error
    for seconds in (body.timeout_s or 0.0, *(body.backoff_s or ())):
        if not 0 <= seconds < _FOREVER_S:
            raise NotAJobError(f"not a job: {seconds:g} s is no timeout and no back-off")
    return body


def copy_payload(body: JobBody, attempts: int) -> Envelope:
    """The payload of a copy of a job; encodes as JSON by msgspec."""
    assert attempts >= 0, f"attempts {attempts} of job {body.id}"
    return Envelope(msgspec.structs.replace(body, attempts=attempts))


def renewed(body: JobBody, now_us: int) -> JobBody:
    """The job with its deadline as far ahead of now as it was of its dispatch."""
    if body.deadline is None:
        return body
    span_us = body.deadline.span_us
    return msgspec.structs.replace(body, deadline=Deadline(now_us + span_us, span_us))


def encode_payload(envelope: Envelope) -> bytes:
    """The payload as JSON."""
    return _ENCODER.encode(envelope)


def encode_data(data: object) -> msgspec.Raw:
    """What a handler is to be called with, as JSON with sorted keys.

    Raises:
        TypeError: It holds something that JSON cannot.
    """
    return msgspec.Raw(_SORTED_ENCODER.encode(data))


def payload_digest(data: object) -> str:
    """SHA-256, hex, of a job's data, whatever the order of its keys.

    Args:
        data: The data itself, or its JSON as `msgspec.Raw`.
    """
    if isinstance(data, msgspec.Raw):
        data = msgspec.json.decode(data)
    return hashlib.sha256(_SORTED_ENCODER.encode(data)).hexdigest()


def partition_of(job_id: str, partitions: int) -> str:
    """The stripe of a job without its own ordering key."""
    return stripe(int.from_bytes(hashlib.sha256(job_id.encode()).digest()[:8], "big") % partitions)


def stripe(number: int) -> str:
    """The name of one of the partitions that jobs are spread over, counted from 0."""
    return f"p-{number:04d}"


def copy_txn(job_id: str, origin_txn: str, reason: str) -> str:
    """Transaction id of a copy: the same for the same message and reason, so that repeats fold.

    Args:
        job_id: The job.
        origin_txn: Transaction id of the message that is copied.
        reason: What tells this copy from others of the message, such as `retry:2` or a lease id.
    """
    mark = hashlib.sha256(f"{origin_txn}\n{reason}".encode()).hexdigest()[:16]
    return f"{job_id}.{mark}"
