"""Runs a proxy and takes its orders: one JSON object a line, answered in order."""

from __future__ import annotations

import signal
from contextlib import suppress
from functools import partial
from pathlib import Path

import msgspec
import trio

from .capture import Capture
from .control import LINE_BYTES_MAX, Answer, Order, Plan
from .proxying import Proxy
from .unix import bound_unix

_READ_BYTES = 65_536
_FLUSH_S = 1.0


def serve(plan: Plan) -> None:
    """Serve until SIGTERM; raises OSError if an address cannot be had."""
    trio.run(_serve, plan)


async def _serve(plan: Plan) -> None:
    capture = None if plan.capture is None else Capture(plan.capture, plan.ways)
    try:
        proxy = Proxy(plan, None if capture is None else capture.tap)
        with open_signals() as signals:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(proxy.run)
                nursery.start_soon(_take_orders, plan, proxy, capture)
                if capture is not None:
                    nursery.start_soon(_flush, capture)
                async for _ in signals:
                    nursery.cancel_scope.cancel()
    finally:
        if capture is not None:
            capture.close()
        with suppress(FileNotFoundError):
            Path(plan.control).unlink()


open_signals = partial(trio.open_signal_receiver, signal.SIGTERM)


async def _flush(capture: Capture) -> None:
    while True:
        await trio.sleep(_FLUSH_S)
        capture.flush()


async def _take_orders(plan: Plan, proxy: Proxy, capture: Capture | None) -> None:
    listener = trio.SocketListener(trio.socket.from_stdlib_socket(bound_unix(Path(plan.control))))
    async with listener:
        while True:
            stream = await listener.accept()
            await _obey(stream, proxy, capture)


async def _obey(stream: trio.SocketStream, proxy: Proxy, capture: Capture | None) -> None:
    buffer = bytearray()
    with suppress(trio.BrokenResourceError, msgspec.MsgspecError):
        async with stream:
            while data := await stream.receive_some(_READ_BYTES):
                buffer += data
                while (end := buffer.find(b"\n")) >= 0:
                    order = msgspec.json.decode(bytes(buffer[:end]), type=Order)
                    del buffer[: end + 1]
                    if order.op == "sync" and capture is not None:
                        capture.flush()
                    answer = proxy.obey(order) if order.op != "sync" else Answer()
                    await stream.send_all(msgspec.json.encode(answer) + b"\n")
                if len(buffer) > LINE_BYTES_MAX:
                    return
