"""Tokens: a run in one line of text, to be run again on another day.

A seed alone dies with the next change of the simulator's drawing; a token carries knobs and
schedule in full. What remains drawn (delays, think times, timeouts) comes from the streams of
its seed, which the schema number guards.
"""

from __future__ import annotations

import base64
import platform
import zlib
from typing import Final

import msgspec

from ...system.bugs import parse_bugs
from .faults import KINDS, LEADER
from .simulation import Scenario

SCHEMA: Final = 1
PYTHON: Final = platform.python_version()
_PREFIX: Final = "sim1."
_SIZE_MAX: Final = 1 << 20


class Token(msgspec.Struct, frozen=True):
    """A run and what came of it.

    Attributes:
        schema: Version of the simulator's meaning of a scenario.
        python: Version of Python that ran it.
        oracle: What it violated; empty for a clean run.
        scenario: The run.
    """

    schema: int
    python: str
    oracle: str
    scenario: Scenario


def encode_token(scenario: Scenario, oracle: str = "") -> str:
    """Return the token of a run."""
    token = Token(SCHEMA, PYTHON, oracle, scenario)
    packed = zlib.compress(msgspec.msgpack.encode(token), 9)
    return _PREFIX + base64.urlsafe_b64encode(packed).decode().rstrip("=")


def decode_token(text: str) -> Token:
    """Return what a token stands for.

    Raises:
        ValueError: Not a token, of another schema, or with a scenario that cannot be run.
    """
    if not text.startswith(_PREFIX):
        raise ValueError(f"not a simulation token: {text[:20]!r} does not begin with {_PREFIX!r}")
    body = text[len(_PREFIX) :]
    try:
        packed = base64.b64decode(body + "=" * (-len(body) % 4), altchars=b"-_", validate=True)
        unpacked = zlib.decompressobj().decompress(packed, _SIZE_MAX)
        token = msgspec.msgpack.decode(unpacked, type=Token)
    except (ValueError, zlib.error, msgspec.DecodeError) as error:
        raise ValueError(f"damaged simulation token: {error}") from error
    if token.schema != SCHEMA:
        raise ValueError(f"token of schema {token.schema}; this simulator runs schema {SCHEMA}")
    _check(token.scenario)
    return token


def _check(scenario: Scenario) -> None:
    parse_bugs(scenario.bugs)
    nodes, spares = scenario.knobs.nodes, scenario.knobs.spares
    if nodes < 1 or spares < 0 or nodes + spares > 9:
        raise ValueError(f"token with {nodes} nodes and {spares} spares; 1 to 9 can be simulated")
    for fault in scenario.schedule:
        if fault.kind not in KINDS:
            raise ValueError(f"token with unknown fault {fault.kind!r}")
        if min(fault.at_us, fault.duration_us, fault.level) < 0 or fault.target < LEADER:
            raise ValueError(f"token with impossible fault {fault!r}")
