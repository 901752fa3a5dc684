"""The next job of a chain, as the transaction that acks the one before it pushes it. Pure."""

from __future__ import annotations

from typing import Final

import msgspec

from .links import Chain, Followers
from .payload import Envelope, JobBody, encode_payload

_BODY_DECODER: Final = msgspec.json.Decoder(JobBody)


def follow(body: JobBody, followers: Followers) -> None:
    """Add the next job of a completed job's chain; the rest of the chain travels in it."""
    if body.chain is None or not body.chain.links:
        return
    link, *rest = body.chain.links
    after = Chain(id=body.chain.id, links=tuple(rest), catch=body.chain.catch)
    following = msgspec.structs.replace(
        _BODY_DECODER.decode(link.body), chain=after if rest or after.catch is not None else None
    )
    followers.add(link, encode_payload(Envelope(following)))


def has_followers(body: JobBody | None) -> bool:
    """Whether the end of this job does more than end it."""
    return body is not None and (body.chain is not None or body.batch is not None)
