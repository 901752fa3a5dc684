"""How two nodes convince each other that both know the token, which never travels.

The listener sends 32 random bytes. The dialer answers who it is, whom it means to reach, for which
channel, 32 random bytes of its own, and an HMAC over all that. The listener proves itself by an
HMAC over the dialer's bytes. An eavesdropper learns nothing to reuse: both sides' bytes are new
each time, and each HMAC says which side made it.
"""

from __future__ import annotations

import hmac
import re
from collections.abc import Callable
from typing import Final

import trio

from .frames import (
    HANDSHAKE_BYTES_MAX,
    Channel,
    FrameBuffer,
    FrameError,
    Hello,
    Welcome,
    decode_hello,
    decode_welcome,
    encode,
    frame,
)

CHALLENGE_BYTES: Final = 32
HANDSHAKE_TIMEOUT_S: Final = 2.0

NAME: Final = re.compile("[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
"""What the name of a node is made of. Who knows the token is of the cluster, whatever its name:
the membership may have changed without this node."""

_READ_BYTES: Final = 64 * 1024


class HandshakeError(Exception):
    """The other side is not a node of this cluster, or not the one that was meant."""


def _proof(token: bytes, side: bytes, challenge: bytes, *names: str) -> bytes:
    message = b"\0".join([side, challenge, *(name.encode() for name in names)])
    return hmac.digest(token, message, "sha256")


async def receive_frame(stream: trio.abc.ReceiveStream, buffer: FrameBuffer) -> bytes:
    """Wait for one whole frame.

    Raises:
        FrameError: The stream ended, or the frame is longer than the buffer allows.
    """
    while (content := buffer.next_frame()) is None:
        data = await stream.receive_some(_READ_BYTES)
        if not data:
            raise FrameError("connection closed in mid-frame")
        buffer.feed(data)
    return content


async def greet(
    stream: trio.abc.Stream,
    token: bytes,
    node: str,
    to: str,
    channel: Channel,
    challenge: bytes,
    incarnation: str = "",
    address: str = "",
) -> tuple[FrameBuffer, Welcome]:
    """Introduce this node on a connection that it has opened.

    Args:
        stream: The connection.
        token: The cluster's secret.
        node: This node.
        to: The peer that is meant.
        channel: What the connection is for.
        challenge: `CHALLENGE_BYTES` random bytes.
        incarnation: The id of this node's data folder.
        address: Where this node is reached, for a listener that does not know it yet.

    Returns:
        The buffer to go on reading with, and what the listener said.

    Raises:
        HandshakeError: The listener does not know the token.
        FrameError: It speaks something else.
    """
    buffer = FrameBuffer(HANDSHAKE_BYTES_MAX)
    theirs = await receive_frame(stream, buffer)
    if len(theirs) != CHALLENGE_BYTES:
        raise FrameError(f"challenge of {len(theirs)} bytes instead of {CHALLENGE_BYTES}")
    proof = _proof(token, b"dialer", theirs, node, to, channel, incarnation, address)
    hello = Hello(node, to, channel, challenge, proof, incarnation, address)
    await stream.send_all(encode(hello))
    welcome = decode_welcome(await receive_frame(stream, buffer))
    expected = _proof(token, b"listener", challenge, to, welcome.incarnation, welcome.known)
    if not hmac.compare_digest(welcome.proof, expected):
        raise HandshakeError("the listener does not know this cluster's token")
    return buffer, welcome


def _nothing(_: str) -> str:
    return ""


async def admit(
    stream: trio.abc.Stream,
    token: bytes,
    node: str,
    challenge: bytes,
    incarnation: str = "",
    known: Callable[[str], str] = _nothing,
) -> tuple[Hello, FrameBuffer]:
    """Check who has opened a connection to this node.

    Args:
        stream: The connection.
        token: The cluster's secret.
        node: This node.
        challenge: `CHALLENGE_BYTES` random bytes.
        incarnation: The id of this node's data folder.
        known: The id by which the membership knows a peer.

    Returns:
        What the peer said, and the buffer to go on reading with.

    Raises:
        HandshakeError: The dialer does not know the token, or means another node.
        FrameError: It speaks something else.
    """
    buffer = FrameBuffer(HANDSHAKE_BYTES_MAX)
    await stream.send_all(frame(challenge))
    hello = decode_hello(await receive_frame(stream, buffer))
    if len(hello.challenge) != CHALLENGE_BYTES:
        raise FrameError(f"challenge of {len(hello.challenge)} bytes, not {CHALLENGE_BYTES}")
    names = (hello.node, hello.to, hello.channel, hello.incarnation, hello.address)
    expected = _proof(token, b"dialer", challenge, *names)
    if not hmac.compare_digest(hello.proof, expected):
        raise HandshakeError("the dialer does not know this cluster's token")
    if not NAME.fullmatch(hello.node) or hello.node == node:
        raise HandshakeError(f"{hello.node[:80]!r} cannot be the name of a peer")
    if hello.to != node:
        raise HandshakeError(f"{hello.node} looks for {hello.to!r}, and this is {node}")
    id_known = known(hello.node)
    proof = _proof(token, b"listener", hello.challenge, node, incarnation, id_known)
    await stream.send_all(encode(Welcome(proof, incarnation, id_known)))
    return hello, buffer
