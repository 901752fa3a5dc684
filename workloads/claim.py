"""The workload `claim`: several clients race to put a value of their own under a key, then read it.

Each key is claimed by up to five clients at about the same moment, each once, and read by each of
them afterwards. At the end one reader of each node reads every key.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from functools import partial
from typing import Final

import msgspec
import trio

from ..histories.claim_ops import CLAIM, FINAL_READ, READ, Claim, Claimed, KeyValue, ReadKey
from ..system.client import BrokerError, Endpoint, keyvalue
from .activity import Load
from .pinned import ClientRecorder, PinnedClient, make_clients, outcome_of, write_at_last

NAMESPACE: Final = "claims"
RIVALS: Final = 5

_OPS_PER_RIVAL: Final = 2
_TRIES_PAUSE_S: Final = 0.2


class ClaimActivity:
    """Runs the workload.

    Args:
        load: Its size.
        endpoints: Where each node serves clients.
        recorder: Where operations go.
    """

    def __init__(
        self, load: Load, endpoints: Mapping[str, Endpoint], recorder: ClientRecorder
    ) -> None:
        self._load = load
        self._endpoints = endpoints
        self._recorder = recorder
        self._clients = make_clients(endpoints, recorder, load)
        self._begun: set[str] = set()
        self._lasts = itertools.count()

    async def prepare(self) -> None:
        """Nothing: a key needs no making."""

    async def load(self) -> None:
        """Race for one key after the other."""
        begun_s = trio.current_time()
        async with trio.open_nursery() as nursery:
            for client in self._clients:
                nursery.start_soon(self._race, client, begun_s)

    async def _race(self, client: PinnedClient, begun_s: float) -> None:
        """Take part in the races of a client; one that was held up joins those that are on now."""
        rivals = min(RIVALS, len(self._clients))
        gap_s = rivals * _OPS_PER_RIVAL / self._load.rate
        number, last = 0, int(self._load.time_limit_s / gap_s)
        place = self._clients.index(client)
        while number < last:
            # Which clients sit a race out goes round.
            if (number + place) % len(self._clients) < rivals:
                await trio.sleep_until(begun_s + number * gap_s)
                await self._claim(client, f"k{number}")
                await self._read(client, f"k{number}")
            number = max(number + 1, int((trio.current_time() - begun_s) / gap_s))

    async def _claim(self, client: PinnedClient, key: str) -> bool:
        """Claim a key; returns whether that was answered."""
        self._begun.add(key)
        asked = Claim(key=key, id=f"{key}:{client.process}")
        op = client.invoke(CLAIM, msgspec.to_builtins(asked))
        operation = {
            "op": "putIfAbsent",
            "ns": NAMESPACE,
            "key": key,
            "value": asked.id,
            "forever": True,
        }
        try:
            (answer,) = await client.ask(keyvalue.kv([operation]))
        except BrokerError as error:
            client.complete(op, outcome_of(error), error=str(error))
            return False
        done = Claimed(won=answer.applied, current=_text(bytes(answer.value)))
        client.complete(op, "ok", msgspec.to_builtins(done))
        return True

    async def _read(self, client: PinnedClient, key: str, final: bool = False) -> bool:
        op = client.invoke(READ, msgspec.to_builtins(ReadKey(key=key, final=final)))
        operation = {"op": "get", "ns": NAMESPACE, "key": key}
        try:
            (answer,) = await client.ask(keyvalue.kv([operation]))
        except BrokerError as error:
            client.complete(op, "fail", error=str(error))
            return False
        found = _text(bytes(answer.value)) if answer.found else None
        client.complete(op, "ok", msgspec.to_builtins(KeyValue(id=found)))
        return True

    async def finish(self) -> None:
        """Read every key, at every node."""
        await trio.sleep(self._load.settle_s)
        async with trio.open_nursery() as nursery:
            for client in self._clients:
                nursery.start_soon(write_at_last, partial(self._claim_at_last, client))
        for client in self._clients:
            await client.aclose()
        async with trio.open_nursery() as nursery:
            for node, endpoint in self._endpoints.items():
                client = PinnedClient(node, 0, endpoint, self._recorder, self._load, "final-")
                nursery.start_soon(self._read_all, client)

    async def _claim_at_last(self, client: PinnedClient) -> bool:
        return await self._claim(client, f"last-{next(self._lasts)}")

    async def _read_all(self, client: PinnedClient) -> None:
        op = self._recorder.invoke(FINAL_READ, node=client.node)
        left = sorted(self._begun)
        with trio.move_on_after(self._load.final_s):
            while left:
                await trio.lowlevel.checkpoint()
                with trio.CancelScope(shield=True):
                    was_read = await self._read(client, left[-1], final=True)
                if was_read:
                    left.pop()
                else:
                    await trio.sleep(_TRIES_PAUSE_S)
        if left:
            text = f"{len(left)} keys unread after {self._load.final_s:g} s"
            self._recorder.complete(op, "info", None, client.node, text)
        else:
            self._recorder.complete(op, "ok", None, client.node)
        await client.aclose()


def _text(value: bytes) -> str | None:
    """Return a value; one that no client put is shown as it is."""
    try:
        read = msgspec.json.decode(value)
    except msgspec.DecodeError:
        return value.decode("utf-8", "replace")
    return read if isinstance(read, str) or read is None else value.decode("utf-8", "replace")
