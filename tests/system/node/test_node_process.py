"""A node's process: what it refuses, how it ends, and what it survives."""

from __future__ import annotations

import http.client
import json
import resource
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from atleastonce.system.node.frames import frame

from .conftest import MakeCluster
from .node_cluster import Client, NodeProcess, drain, free_ports, wait_until

pytestmark = pytest.mark.cluster


def run_to_end(node: NodeProcess) -> tuple[int, list[str]]:
    """Start a node that is expected to refuse; its status and the lines that are no records."""
    node.start()
    status = node.wait()
    lines = node.log_path.read_text().splitlines()
    return status, [line for line in lines if not line.startswith("{")]


@pytest.mark.parametrize("which", ["client", "peer"])
def test_a_port_in_use_is_one_line_and_status_2(make_cluster: MakeCluster, which: str) -> None:
    node = make_cluster(1).nodes["n1"]
    port = node.port if which == "client" else node.peer_port
    with socket.create_server(("127.0.0.1", port)):
        status, lines = run_to_end(node)
    assert status == 2
    assert len(lines) == 1
    assert f"127.0.0.1:{port}" in lines[0]
    assert "in use" in lines[0]


def test_a_data_folder_in_use_is_one_line_and_status_2(make_cluster: MakeCluster) -> None:
    cluster = make_cluster(1)
    cluster.start()
    first = cluster.nodes["n1"]
    ports = free_ports(2)
    config = first.config | {
        "client": ["127.0.0.1", ports[0]],
        "peers": {"n1": ["127.0.0.1", ports[1]]},
    }
    folder = Path(first.config["data_dir"]).parent / "second"
    folder.mkdir()
    second = NodeProcess(config, folder)
    status, lines = run_to_end(second)
    assert status == 2
    assert len(lines) == 1
    assert "in use by another process" in lines[0]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"disk": "fast"}, "disk"),
        ({"bugs": ["no-such-bug"]}, "no-such-bug"),
        ({"client": ["0.0.0.0", 6632]}, "allow_remote"),
        ({"colour": "blue"}, "colour"),
        ({"node": "n7"}, "n7"),
        ({"token_file": "/nonexistent/token"}, "/nonexistent/token"),
        ({"heartbeat_ms": 500}, "500"),
        ({"jwt_secret_file": "/nonexistent/secret"}, "/nonexistent/secret"),
        ({"jwt_secret_file": "/dev/null"}, "less than 32 bytes"),
    ],
)
def test_a_bad_setting_is_one_line_and_status_2(
    make_cluster: MakeCluster, change: dict[str, object], words: str
) -> None:
    node = make_cluster(1).nodes["n1"]
    node.config.update(change)
    status, lines = run_to_end(node)
    assert status == 2
    assert len(lines) == 1
    assert words in lines[0]


def test_a_missing_argument_is_usage() -> None:
    command = [sys.executable, "-m", "atleastonce.system.node"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith("usage:")


def test_a_damaged_log_is_refused_with_file_offset_and_remedy(make_cluster: MakeCluster) -> None:
    cluster = make_cluster(1)
    cluster.start()
    node = cluster.nodes["n1"]
    client = node.client()
    for number in range(50):
        assert client.push("q", f"m{number}")[0] == 201
    client.hang_up()
    node.signal(signal.SIGTERM)
    assert node.wait() == 0
    (segment,) = (Path(node.config["data_dir"]) / "log").glob("*.wal")
    content = bytearray(segment.read_bytes())
    # More than the zeros between two records, which nothing depends on.
    middle = len(content) // 2
    content[middle : middle + 8] = bytes(byte ^ 0x55 for byte in content[middle : middle + 8])
    segment.write_bytes(content)
    status, lines = run_to_end(node)
    assert status == 70
    assert str(segment) in lines[0]
    assert "damaged at byte" in lines[0]
    assert lines[1].startswith("remedy: ")
    assert node.events("damaged-log")[0]["offset"] > 0


@pytest.mark.parametrize("stop", [signal.SIGTERM, signal.SIGKILL])
def test_a_restarted_single_node_has_what_it_acknowledged(
    make_cluster: MakeCluster, stop: signal.Signals
) -> None:
    cluster = make_cluster(1, disk="lossy")
    cluster.start()
    node = cluster.nodes["n1"]
    client = node.client()
    names = [f"m{number}" for number in range(100)]
    for name in names:
        assert client.push("q", name)[0] == 201
    client.hang_up()
    node.signal(stop)
    node.wait()
    node.start()
    cluster.wait_healthy()
    client = node.client()
    assert drain(client, "q") == names
    client.hang_up()
    assert node.events("boot")[1]["last_index"] >= len(names)


def test_a_failed_disk_ends_the_node_at_once(make_cluster: MakeCluster) -> None:
    cluster = make_cluster(1)
    cluster.start()
    node = cluster.nodes["n1"]
    client = node.client()
    assert client.push("q", "x")[0] == 201
    assert node.process is not None
    resource.prlimit(node.process.pid, resource.RLIMIT_FSIZE, (4096, 4096))
    body = {"items": [{"queue": "q", "payload": "y" * 100_000}]}
    with pytest.raises((OSError, http.client.HTTPException)):
        client.call("POST", "/api/v1/push", body)
    assert node.wait() == 71
    assert node.events("disk-failed")[0]["operation"] == "write"


def test_a_node_dies_with_its_parent(make_cluster: MakeCluster) -> None:
    node = make_cluster(1).nodes["n1"]
    node.config["parent_pid"] = None
    config = Path(node.config["data_dir"]).parent / "child.json"
    config.write_text(json.dumps(node.config))
    program = (
        "import subprocess, sys, time\n"
        "subprocess.Popen([sys.executable, '-m', 'atleastonce.system.node', sys.argv[1]])\n"
        "print('started', flush=True)\n"
        "sys.stdin.read()\n"
    )
    command = [sys.executable, "-c", program, str(config)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as parent:
        client = Client(node.port)
        wait_until("the node is up", lambda: client.health() is not None)
        client.hang_up()
        parent.kill()
        parent.wait()
    wait_until("the node is gone", lambda: Client(node.port).health() is None)


def send_garbage(port: int, data: bytes) -> None:
    """Send bytes and take whatever comes back until the node closes or is silent."""
    with socket.create_connection(("127.0.0.1", port), timeout=5) as stream:
        try:
            stream.sendall(data)
            stream.shutdown(socket.SHUT_WR)
            while stream.recv(65536):
                pass
        except OSError:
            return


def test_garbage_at_either_port_stops_nobody(make_cluster: MakeCluster) -> None:
    cluster = make_cluster(1)
    cluster.start()
    node = cluster.nodes["n1"]

    @settings(
        max_examples=40,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(st.binary(max_size=300), st.sampled_from([b"", b"POST /api/v1/push HTTP/1.1\r\n"]))
    def throw(garbage: bytes, start: bytes) -> None:
        send_garbage(node.port, start + garbage)
        send_garbage(node.peer_port, garbage)
        send_garbage(node.peer_port, frame(garbage))

    throw()
    client = node.client()
    assert client.push("q", "still here")[0] == 201
    counters = client.call("GET", "/metrics")[1]["counters"]
    client.hang_up()
    assert counters["refused_peers"] > 0
    assert counters["internal_errors"] == 0
    assert node.events("internal") == []


def test_a_killed_node_resets_its_clients_and_a_stopped_one_ends_in_order(
    make_cluster: MakeCluster,
) -> None:
    cluster = make_cluster(1)
    node = cluster.nodes["n1"]
    for end, received in ((node.kill, None), (lambda: node.signal(signal.SIGTERM), b"")):
        cluster.start()
        with socket.create_connection(("127.0.0.1", node.port), timeout=20) as client:
            client.sendall(b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n")
            assert client.recv(65_536).startswith(b"HTTP/1.1 200")
            end()
            if received is None:
                with pytest.raises(ConnectionResetError):
                    client.recv(1)
            else:
                assert client.recv(1) == received
        node.wait()


def test_a_node_that_gets_no_memory_ends_with_status_72_and_has_what_it_acknowledged(
    make_cluster: MakeCluster,
) -> None:
    cluster = make_cluster(1)
    cluster.start()
    node = cluster.nodes["n1"]
    client = node.client()
    assert client.push("q", "x")[0] == 201
    assert node.process is not None
    pid = node.process.pid
    pages = int(Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[0])
    _, hard = resource.prlimit(pid, resource.RLIMIT_AS)
    resource.prlimit(pid, resource.RLIMIT_AS, (pages * resource.getpagesize(), hard))
    body = {"items": [{"queue": "q", "payload": "y" * 40_000_000}]}
    with pytest.raises((OSError, http.client.HTTPException)):
        client.call("POST", "/api/v1/push", body)
    assert node.wait() == 72
    client.hang_up()
    node.start()
    cluster.wait_healthy()
    client = node.client()
    assert drain(client, "q") == ["x"]
    client.hang_up()
