"""What a running node needs to know."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from ..bugs import Bugs
from .address import Address
from .limits import DEFAULT_LIMITS, NodeLimits


@dataclass(frozen=True, slots=True)
class NodeSettings:
    """What a running node needs to know.

    Attributes:
        node: Its name.
        peers: The other nodes' peer addresses.
        token: The cluster's secret.
        request_deadline_ms: How long a request is held that names no deadline.
        version: Told by `/health`.
        bugs: Planted defects.
        jwt_secret: What clients' tokens are signed with; None lets everybody in.
        subscription_mode: Where a group begins whose first pop does not say.
        limits: What it may hold.
        address: Where its peers reach it; None when they all know.
        incarnation: The id of its data folder; empty without one.
        prove: Writes down that this folder is the node's first.
    """

    node: str
    peers: dict[str, Address]
    token: bytes = field(repr=False)
    request_deadline_ms: int
    version: str
    bugs: Bugs
    jwt_secret: bytes | None = field(default=None, repr=False)
    subscription_mode: str = "new"
    limits: NodeLimits = DEFAULT_LIMITS
    address: Address | None = None
    incarnation: str = ""
    prove: Callable[[], None] = lambda: None
