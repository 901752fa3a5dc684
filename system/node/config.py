"""What a node is told at its start, checked before anything else happens."""

from __future__ import annotations

import ipaddress
from pathlib import Path
from typing import Literal

import msgspec

from ..bugs import UnknownBugError, parse_bugs
from .address import Address
from .config_error import ConfigError
from .limits import DEFAULT_LIMITS, NodeLimits
from .storage_limits import DEFAULT_STORAGE, StorageLimits
from .tls import TlsFiles

__all__ = [
    "Address",
    "ConfigError",
    "NodeConfig",
    "check_config",
    "load_config",
]


class NodeConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One node's settings, as JSON in a file.

    Attributes:
        node: This node's name, a key of `peers`.
        data_dir: Where its log lives; made if missing.
        client: Where it serves HTTP.
        peers: Every voter's peer address, this node's own included. They found a new cluster; a
            running one remembers its members itself.
        token_file: A file whose content, blanks trimmed, every node of the cluster knows; None
            takes it from the environment (see `secrets`).
        disk: `lossy` keeps unsynced bytes in this process, so that a kill loses them.
        bugs: Planted defects to switch on.
        log_file: Where log lines go instead of standard error.
        allow_remote: Whether the client address may be other than a loopback one.
        die_with_parent: Be killed when the process that started this one dies, and leave Ctrl-C
            to it.
        parent_pid: Who that process is; another parent means that it died already.
        request_deadline_ms: How long a request is held without `x-deadline-ms`.
        jwt_secret_file: A file whose content, blanks trimmed, signs the clients' tokens (HS256);
            None takes it from the environment, and without one there everybody is let in.
        default_subscription_mode: Where a group begins whose first pop does not say: behind what
            is there, or at the oldest message.
        limits: What it may hold, and when its disk counts as full.
        storage: How it keeps its log and its checkpoints.
        client_tls: Serve clients by TLS alone; with an authority, only those that it vouches for.
        time_of_day_file: A file that says by how much this node's time of day is wrong, in
            microseconds; only tests of clocks have one.
        join: Wait until a running cluster takes this node in, instead of founding one with `peers`.
        tls_passphrase_file: A file whose content, blanks trimmed, the keys of both are encrypted
            with; None takes it from the environment.
        peer_tls: Speak TLS with the other nodes, which must all do so; needs an authority.
    """

    node: str
    data_dir: str
    client: Address
    peers: dict[str, Address]
    token_file: str | None = None
    disk: Literal["real", "lossy"] = "real"
    bugs: tuple[str, ...] = ()
    election_ms_min: int = 400
    election_ms_max: int = 800
    heartbeat_ms: int = 100
    log_file: str | None = None
    allow_remote: bool = False
    die_with_parent: bool = False
    parent_pid: int | None = None
    request_deadline_ms: int = 5000
    jwt_secret_file: str | None = None
    default_subscription_mode: Literal["new", "all"] = "new"
    limits: NodeLimits = DEFAULT_LIMITS
    storage: StorageLimits = DEFAULT_STORAGE
    client_tls: TlsFiles | None = None
    peer_tls: TlsFiles | None = None
    time_of_day_file: str | None = None
    join: bool = False
    tls_passphrase_file: str | None = None


def _check_address(name: str, address: Address) -> None:
    host, port = address
    try:
        ipaddress.ip_address(host)
    except ValueError:
        raise ConfigError(f"{name}: {host!r} is not an IP address") from None
    if not 1 <= port <= 65535:
        raise ConfigError(f"{name}: port {port} is not within 1..65535")


def check_config(config: NodeConfig) -> NodeConfig:
    """Check what types alone cannot.

    Raises:
        ConfigError: A value is out of its bounds, or two values contradict each other.
    """
    if config.node not in config.peers:
        known = ", ".join(sorted(config.peers)) or "none"
        raise ConfigError(f"node: {config.node!r} is not among peers: {known}")
    _check_address("client", config.client)
    for name, address in config.peers.items():
        _check_address(f"peers.{name}", address)
    addresses = [config.client, *config.peers.values()]
    for address in addresses:
        if addresses.count(address) > 1:
            raise ConfigError(f"{address[0]}:{address[1]} is named twice among client and peers")
    if not config.allow_remote and not ipaddress.ip_address(config.client[0]).is_loopback:
        raise ConfigError(
            f"client: {config.client[0]!r} is not a loopback address; set allow_remote to serve it"
        )
    if not 0 < 2 * config.heartbeat_ms <= config.election_ms_min <= config.election_ms_max:
        raise ConfigError(
            "want 0 < 2 * heartbeat_ms <= election_ms_min <= election_ms_max, got "
            f"{config.heartbeat_ms}, {config.election_ms_min}, {config.election_ms_max}"
        )
    if not 1 <= config.request_deadline_ms <= 60_000:
        raise ConfigError(
            f"request_deadline_ms: {config.request_deadline_ms} is not within 1..60000"
        )
    trouble = config.limits.trouble()
    if trouble is not None:
        raise ConfigError(f"limits: {trouble}")
    trouble = config.storage.trouble()
    if trouble is not None:
        raise ConfigError(f"storage: {trouble}")
    try:
        parse_bugs(config.bugs)
    except UnknownBugError as error:
        raise ConfigError(f"bugs: {error}") from None
    return config


def load_config(path: Path) -> NodeConfig:
    """Read and check a configuration file.

    Raises:
        ConfigError: The file cannot be read, is no JSON of this shape, or holds a wrong value.
    """
    try:
        text = path.read_bytes()
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}") from None
    try:
        config = msgspec.json.decode(text, type=NodeConfig)
    except msgspec.MsgspecError as error:
        raise ConfigError(f"{path}: {error}") from None
    return check_config(config)
