"""Real nodes with checkpoints: quick starts, a log that stays short, refusals that name a file."""

from __future__ import annotations

import http.client
import resource
import signal
import subprocess
import sys
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

KEPT = SMALL | {"tail_bytes": 1 << 20, "hold_bytes": 1 << 20}


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
        wait_until("a checkpoint", lambda: is_saved(client))
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
    wait_until("a checkpoint", lambda: is_saved(client))
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


def verify_data(node: NodeProcess) -> subprocess.CompletedProcess[str]:
    program = "import sys; from atleastonce.system.node.cli import main; sys.exit(main())"
    return subprocess.run(
        [sys.executable, "-c", program, "broker", "verify-data", node.config["data_dir"]],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_verify_data_reads_the_checkpoint_too_and_changes_nothing(stopped: NodeProcess) -> None:
    data = Path(stopped.config["data_dir"])
    before = {path: path.read_bytes() for path in data.rglob("*") if path.is_file()}
    done = verify_data(stopped)
    assert done.returncode == 0, done.stderr
    assert "a checkpoint of entry" in done.stdout
    assert {path: path.read_bytes() for path in data.rglob("*") if path.is_file()} == before


def test_verify_data_names_each_kind_of_damage(stopped: NodeProcess) -> None:
    data = Path(stopped.config["data_dir"])
    (store,) = (data / "checkpoint").glob("*.mdb")
    content = store.read_bytes()
    for bad, words in (
        (content[:20_000], "damaged"),
        (content.replace(b"m599", b"m5gg"), "fails its checksum"),
        (b"", "damaged"),
    ):
        store.write_bytes(bad)
        done = verify_data(stopped)
        assert done.returncode == 70, bad[:4]
        damage, remedy = done.stderr.splitlines()
        assert str(store) in damage
        assert words in damage
        assert remedy.startswith("remedy: ")
    store.unlink()
    assert "it is missing, although the log begins" in verify_data(stopped).stderr
    store.write_bytes(content)
    assert verify_data(stopped).returncode == 0
    max((data / "log").glob("*.wal")).unlink()
    assert "MANIFEST lists it" in verify_data(stopped).stderr


def test_rot_in_a_sealed_segment_is_reported_while_the_node_runs(make_cluster: MakeCluster) -> None:
    cluster = make_cluster(1, storage=KEPT | {"scrub_pause_s": 0, "scrub_bytes_per_s": 1 << 30})
    cluster.start()
    node = cluster.nodes["n1"]
    client = node.client()
    push_many(client, "q", 0, 600)
    folder = Path(node.config["data_dir"]) / "log"
    segment = sorted(folder.glob("*.wal"))[1]
    content = bytearray(segment.read_bytes())
    content[3000:3008] = bytes(byte ^ 0x55 for byte in content[3000:3008])
    with segment.open("r+b") as file:
        file.write(content)
    wait_until("rot seen", lambda: node.events("rot") != [])
    (rot,) = node.events("rot")
    assert rot["file"] == str(segment)
    assert 0 < rot["offset"] <= 3000
    assert client.health()["storage"]["rotten"] == [segment.name]
    metrics = client.call("GET", "/metrics")[1]
    assert metrics["counters"]["rotten_segments"] == 1
    # It serves on, and says at its next start what it can no longer do.
    assert client.push("q", "more")[0] == 201
    client.hang_up()
    node.kill()
    assert run_to_end(node)[0] == 70


def test_rot_in_a_checkpoint_ends_the_process(make_cluster: MakeCluster) -> None:
    cluster = make_cluster(1, storage=KEPT | {"scrub_pause_s": 0, "scrub_bytes_per_s": 1 << 30})
    cluster.start()
    node = cluster.nodes["n1"]
    client = node.client()
    push_many(client, "q", 0, 200)
    wait_until("a checkpoint", lambda: is_saved(client))
    client.hang_up()
    (store,) = (Path(node.config["data_dir"]) / "checkpoint").glob("*.mdb")
    content = store.read_bytes()
    with store.open("r+b") as file:
        at = content.index(b"m199")
        file.seek(at)
        file.write(b"m1gg")
    assert node.wait() == 70
    assert node.events("damaged-checkpoint")[0]["file"] == str(store)


def test_with_the_planted_defect_a_log_that_ends_before_its_checkpoint_is_accepted(
    stopped: NodeProcess,
) -> None:
    segment = max((Path(stopped.config["data_dir"]) / "log").glob("*.wal"))
    content = bytearray(segment.read_bytes())
    content[200:208] = bytes(byte ^ 0x55 for byte in content[200:208])
    segment.write_bytes(content)
    assert run_to_end(stopped)[0] == 70
    stopped.config["bugs"] = ["damage-taken-for-torn-tail"]
    stopped.start()
    client = stopped.client()
    wait_until("the node", lambda: client.health() is not None)
    client.hang_up()
    stopped.kill()


def test_a_checkpoint_that_finds_no_space_ends_the_node_and_costs_nothing(
    make_cluster: MakeCluster,
) -> None:
    cluster = make_cluster(1, storage=SMALL)
    cluster.start()
    node = cluster.nodes["n1"]
    assert node.process is not None
    client = node.client()
    names = push_many(client, "q", 0, 600)
    wait_until("a checkpoint", lambda: is_saved(client))
    (store,) = (Path(node.config["data_dir"]) / "checkpoint").glob("*.mdb")
    room = store.stat().st_size
    assert room > 2 * SMALL["segment_bytes"]
    resource.prlimit(node.process.pid, resource.RLIMIT_FSIZE, (room, room))
    for number in range(1000, 3000):
        try:
            status, _ = client.push("q", f"m{number}")
        except (OSError, http.client.HTTPException):
            break
        assert status == 201
        names.append(f"m{number}")
    client.hang_up()
    assert node.wait() == 71
    (line,) = [line for line in node.log_path.read_text().splitlines() if line[0] != "{"]
    assert line.startswith(f"node: disk failed: commit of {store}")
    node.start()
    cluster.wait_healthy()
    found = drain(client, "q")
    assert found[: len(names)] == names
    assert len(found) <= len(names) + 1
    client.hang_up()
