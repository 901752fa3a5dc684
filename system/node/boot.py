"""From a checked configuration to a node that serves, and back to a clean end."""

from __future__ import annotations

import gc
import random
import signal
import socket
import sys
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec
import trio

from ..bugs import parse_bugs
from ..raft.core import RaftCore
from ..raft.events import RaftConfig
from .address import Address
from .clockfile import CLOCK_FILE, ClockFile
from .config import NodeConfig
from .config_error import ConfigError
from .counters import Counters
from .durable_state import Disk
from .end_in_time import end_in_time
from .gauge import folder_space
from .identity import Identity, load_identity, save_identity
from .logbook import Logbook
from .node import Node, NodeSettings
from .opening import OpenedStorage
from .secrets import Secrets
from .shutdown import stop_gracefully
from .timeofday import WrongTimeOfDay, wall_us
from .tls import Doors, Serve
from .writer import StorageWriter

_BACKLOG: Final = 1024
_SWITCH_INTERVAL_S: Final = 0.0005
_COLLECTOR_THRESHOLDS: Final = (50_000, 20, 1000)


@dataclass(frozen=True, slots=True)
class Sockets:
    """Bound to their addresses and not listening yet, so that nobody waits on a booting node."""

    client: socket.socket
    peer: socket.socket


def bind_sockets(config: NodeConfig, stack: ExitStack) -> Sockets:
    """Take the node's two addresses.

    Raises:
        ConfigError: One of them is taken or is not this host's.
    """
    return Sockets(
        _bind("client", config.client, stack),
        _bind(f"peers.{config.node}", config.peers[config.node], stack),
    )


def _bind(name: str, address: Address, stack: ExitStack) -> socket.socket:
    host, port = address
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    bound = stack.enter_context(socket.socket(family, socket.SOCK_STREAM))
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        bound.bind((host, port))
    except OSError as error:
        raise ConfigError(f"{name}: cannot listen on {host}:{port}: {error.strerror}") from None
    return bound


def _listen(name: str, bound: socket.socket) -> trio.SocketListener:
    try:
        bound.listen(_BACKLOG)
    except OSError as error:
        host, port = bound.getsockname()[:2]
        raise ConfigError(f"{name}: cannot listen on {host}:{port}: {error.strerror}") from None
    return trio.SocketListener(trio.socket.from_stdlib_socket(bound))


def _core(config: NodeConfig, opened: OpenedStorage, identity: Identity, now_us: int) -> RaftCore:
    return RaftCore(
        RaftConfig(
            node_id=config.node,
            voters=() if config.join else tuple(sorted(config.peers)),
            incarnation=identity.incarnation,
            on_probation=not identity.proven,
            election_ms_min=config.election_ms_min,
            election_ms_max=config.election_ms_max,
            heartbeat_ms=config.heartbeat_ms,
        ),
        opened.recovered.hard_state,
        opened.raft_log,
        random.SystemRandom().randint,
        now_us,
        parse_bugs(config.bugs),
        opened.in_force.store.position,
    )


def _identify(config: NodeConfig, opened: OpenedStorage, folder: Path) -> Identity:
    recovered, position = opened.recovered, opened.in_force.store.position
    is_empty = not (recovered.hard_state.term or recovered.entries or position.index)
    is_alone = len(config.peers) == 1 and not config.join
    return load_identity(folder, config.node, is_empty, is_alone)


def _time_of_day(config: NodeConfig) -> Callable[[], int]:
    if config.time_of_day_file is None:
        return wall_us
    try:
        return WrongTimeOfDay(Path(config.time_of_day_file))
    except OSError as error:
        raise ConfigError(f"time_of_day_file: cannot open: {error.strerror}") from None


def _settings(
    config: NodeConfig, secrets: Secrets, version: str, identity: Identity
) -> NodeSettings:
    folder = Path(config.data_dir)
    return NodeSettings(
        node=config.node,
        peers={name: at for name, at in config.peers.items() if name != config.node},
        token=secrets.token,
        request_deadline_ms=config.request_deadline_ms,
        version=version,
        bugs=parse_bugs(config.bugs),
        jwt_secret=secrets.jwt,
        subscription_mode=config.default_subscription_mode,
        limits=config.limits,
        address=config.peers[config.node],
        incarnation=identity.incarnation,
        prove=lambda: save_identity(folder, msgspec.structs.replace(identity, proven=True)),
    )


async def run_node(
    config: NodeConfig,
    secrets: Secrets,
    sockets: Sockets,
    doors: Doors,
    opened: OpenedStorage,
    logbook: Logbook,
    version: str,
) -> None:
    """Serve until SIGTERM (or SIGINT, unless that is the parent's business), then stop cleanly.

    Raises:
        ConfigError: An address was taken between binding it and listening on it, or there is no
            `time_of_day_file`.
    """
    sys.setswitchinterval(_SWITCH_INTERVAL_S)
    _tune_collector()
    clock_file = ClockFile(Path(config.data_dir) / CLOCK_FILE, _time_of_day(config))
    clock = clock_file.start(logbook)
    counters = Counters()
    identity = _identify(config, opened, Path(config.data_dir))
    core = _core(config, opened, identity, clock.now_us())
    settings = _settings(config, secrets, version, identity)
    trio_token = trio.lowlevel.current_trio_token()

    def report(sequence: int) -> None:
        try:
            trio_token.run_sync_soon(node.driver.durable, sequence)
        except trio.RunFinishedError:
            # The node has ended; what was synced last is in the log all the same.
            return

    writer = StorageWriter(opened.log, report, logbook, counters)
    measure = folder_space(Path(config.data_dir), config.limits.data_bytes_max)
    node = Node(
        settings,
        core,
        clock,
        writer.put,
        logbook,
        counters,
        doors.dial,
        measure=measure,
        disk=Disk(opened, writer.purge, config.storage),
    )
    writer.start()
    signals = {signal.SIGTERM} if config.die_with_parent else {signal.SIGTERM, signal.SIGINT}
    with trio.open_signal_receiver(*signals) as received:
        async with trio.open_nursery() as nursery:
            peer_listener = _listen(f"peers.{config.node}", sockets.peer)
            client_listener = _listen("client", sockets.client)
            nursery.start_soon(node.run)
            nursery.start_soon(clock_file.keep, clock)
            serve_peer = doors.peer(node.gate.serve)
            nursery.start_soon(trio.serve_listeners, serve_peer, [peer_listener])
            accepting = trio.CancelScope()
            nursery.start_soon(end_in_time, lambda: accepting.cancel_called)
            serve_client = doors.client(node.server.serve)
            nursery.start_soon(_accept, serve_client, client_listener, accepting, nursery)
            logbook.info("listening", client=config.client[1], peer=config.peers[config.node][1])
            async for _ in received:
                break
            has_peers = bool(core.others)
            await stop_gracefully(node, has_peers, accepting.cancel, logbook)
            nursery.cancel_scope.cancel()
        if node.durable is not None:
            await node.durable.close()
    writer.stop()
    clock_file.save(clock)
    logbook.info("stopped")


def _tune_collector() -> None:
    """Look for cyclic garbage seldom: what a node keeps has no cycles, and looking costs time."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_COLLECTOR_THRESHOLDS)


async def _accept(
    serve: Serve,
    listener: trio.SocketListener,
    accepting: trio.CancelScope,
    connections: trio.Nursery,
) -> None:
    with accepting:
        await trio.serve_listeners(serve, [listener], handler_nursery=connections)
    await listener.aclose()
