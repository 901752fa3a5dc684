"""Tokens carry a run in full, and refuse what is none."""

from __future__ import annotations

import base64
import zlib

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from atleastonce.verifier.simulation.faults import Fault
from atleastonce.verifier.simulation.knobs import Knobs
from atleastonce.verifier.simulation.simulation import Scenario, random_scenario
from atleastonce.verifier.simulation.tokens import PYTHON, SCHEMA, Token, decode_token, encode_token


@given(st.integers(0, 10**9))
def test_a_token_gives_back_the_scenario_it_was_made_of(seed: int) -> None:
    scenario = random_scenario(seed, frozenset(["double-vote"]))
    token = decode_token(encode_token(scenario, "one-vote"))
    assert token == Token(SCHEMA, PYTHON, "one-vote", scenario)


@given(st.text(max_size=30), st.booleans())
def test_arbitrary_text_is_refused_with_a_value_error(text: str, has_prefix: bool) -> None:
    with pytest.raises(ValueError, match="token"):
        decode_token(("sim1." if has_prefix else "") + text)


def packed(token: object) -> str:
    return "sim1." + base64.urlsafe_b64encode(
        zlib.compress(msgspec.msgpack.encode(token))
    ).decode().rstrip("=")


@pytest.mark.parametrize(
    ("token", "text"),
    [
        (Token(SCHEMA + 1, PYTHON, "", Scenario(1, Knobs(), ())), "schema"),
        (Token(SCHEMA, PYTHON, "", Scenario(1, Knobs(nodes=0), ())), "0 nodes"),
        (Token(SCHEMA, PYTHON, "", Scenario(1, Knobs(nodes=99), ())), "99 nodes"),
        (Token(SCHEMA, PYTHON, "", Scenario(1, Knobs(), (), ("nope",))), "unknown bug 'nope'"),
        (Token(SCHEMA, PYTHON, "", Scenario(1, Knobs(), (Fault(1, "x", 0, 1),))), "fault 'x'"),
        (Token(SCHEMA, PYTHON, "", Scenario(1, Knobs(), (Fault(-1, "pause", 0, 1),))), "Fault"),
        (["not", "a", "token"], "damaged"),
    ],
)
def test_a_token_that_cannot_be_run_is_refused_by_what_is_wrong(token: object, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        decode_token(packed(token))
