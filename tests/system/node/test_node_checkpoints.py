"""Real nodes with checkpoints: quick starts, a log that stays short, refusals that name a file."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from .conftest import MakeCluster
from .node_cluster import Client, NodeProcess, drain, wait_until

pytestmark = pytest.mark.cluster

SMALL = {
    "checkpoint_ms": 50,
    "segment_bytes": 6_000,
    "tail_bytes": 4_000,
    "hold_bytes": 4_000,
}


def log_bytes(node: NodeProcess) -> int:
    folder = Path(node.config["data_dir"]) / "log"
    return sum(path.stat().st_size for path in folder.iterdir())


def is_saved(client: Client) -> bool:
    health = client.health()
    return health is not None and health["storage"]["checkpoint"] == health["raft"]["last"]


def push_many(client: Client, queue: str, first: int, count: int) -> list[str]:
    names = [f"m{number}" for number in range(first, first + count)]
    for at in range(0, count, 10):
        assert client.push(queue, *names[at : at + 10])[0] == 201
    return names


def run_to_end(node: NodeProcess) -> tuple[int, list[str]]:
    """Start a node that must refuse; its status and its plain lines."""
    before = len(node.log_path.read_text().splitlines())
    node.start()
    status = node.wait()
    lines = node.log_path.read_text().splitlines()[before:]
    return status, [line for line in lines if not line.startswith("{")]


@pytest.mark.parametrize("stop", [signal.SIGTERM, signal.SIGKILL])
@pytest.mark.parametrize("disk", ["real", "lossy"])
def test_a_node_starts_from_its_checkpoint_and_has_everything(
    make_cluster: MakeCluster, stop: signal.Signals, disk: str
) -> None:
    cluster = make_cluster(1, storage=SMALL, disk=disk)
    cluster.start()
    node = cluster.nodes["n1"]
    client = node.client()
    names: list[str] = []
    for turn in range(3):
        names += push_many(client, "q", 1000 * turn, 400)
        wait_until("a checkpoint", lambda: is_saved(client), 10.0)
        late = push_many(client, "q", 1000 * turn + 500, 10)
        names += late
        client.hang_up()
        node.signal(stop)
        node.wait()
        node.start()
        cluster.wait_healthy()
        boot = node.events("boot")[-1]
        assert boot["checkpoint"] > 30 * turn
        assert boot["first_index"] > 1
        assert boot["last_index"] - boot["checkpoint"] <= 5
    assert log_bytes(node) < 60_000
    assert drain(client, "q") == names
    client.hang_up()


@pytest.fixture
def stopped(make_cluster: MakeCluster) -> NodeProcess:
    """A stopped node whose log was cut behind its checkpoints."""
    cluster = make_cluster(1, storage=SMALL)
    cluster.start()
    node = cluster.nodes["n1"]
    client = node.client()
    push_many(client, "q", 0, 600)
    wait_until("a checkpoint", lambda: is_saved(client), 10.0)
    client.hang_up()
    node.signal(signal.SIGTERM)
    assert node.wait() == 0
    return node


def test_a_log_without_its_newest_segment_is_refused(stopped: NodeProcess) -> None:
    segment = max((Path(stopped.config["data_dir"]) / "log").glob("*.wal"))
    segment.unlink()
    status, lines = run_to_end(stopped)
    assert status == 70
    assert str(segment) in lines[0]
    assert "MANIFEST lists it" in lines[0]
    assert lines[1].startswith("remedy: ")


def test_a_log_that_was_wiped_is_refused_for_its_checkpoint(stopped: NodeProcess) -> None:
    for path in (Path(stopped.config["data_dir"]) / "log").iterdir():
        path.unlink()
    status, lines = run_to_end(stopped)
    assert status == 70
    assert "the log ends with entry 0, although a checkpoint holds entry" in lines[0]


def test_a_deleted_checkpoint_is_refused_for_a_log_that_needs_it(stopped: NodeProcess) -> None:
    for path in (Path(stopped.config["data_dir"]) / "checkpoint").iterdir():
        path.unlink()
    status, lines = run_to_end(stopped)
    assert status == 70
    assert "it is missing, although the log begins with entry" in lines[0]


def test_a_rotten_checkpoint_is_refused(stopped: NodeProcess) -> None:
    (store,) = (Path(stopped.config["data_dir"]) / "checkpoint").glob("*.mdb")
    content = bytearray(store.read_bytes())
    at = content.index(b"m599")
    content[at : at + 4] = b"m5gg"
    store.write_bytes(content)
    status, lines = run_to_end(stopped)
    assert status == 70
    assert f"{store}: damaged" in lines[0]


def test_a_checkpoint_that_the_whole_log_can_replace_is_made_again(
    make_cluster: MakeCluster,
) -> None:
    cluster = make_cluster(1)
    cluster.start()
    node = cluster.nodes["n1"]
    client = node.client()
    names = push_many(client, "q", 0, 50)
    client.hang_up()
    node.signal(signal.SIGTERM)
    node.wait()
    for path in (Path(node.config["data_dir"]) / "checkpoint").iterdir():
        path.unlink()
    cluster.start()
    assert drain(client, "q") == names
    client.hang_up()
