"""Booting and forking, as real processes."""

from __future__ import annotations

import os
import signal
import socket
from pathlib import Path

import pytest

from .scripted_broker import ScriptedBroker
from .supervised import Supervised, is_alive, wait_for

pytestmark = pytest.mark.cluster


def field(pid: int, name: str) -> str:
    for line in Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines():
        key, _, value = line.partition(":")
        if key == name:
            return value.strip()
    raise AssertionError(f"no {name} of {pid}")


def test_workers_are_forked_from_one_booted_server_and_do_jobs(
    supervised: Supervised, broker: ScriptedBroker
) -> None:
    supervised.start()
    status = supervised.status()
    server = status["fork_server"]
    workers = [worker["pid"] for worker in status["workers"]]
    assert len(workers) == 2
    assert {int(field(pid, "PPid")) for pid in workers} == {server}
    assert int(field(server, "PPid")) == status["master"]
    wait_for(lambda: {os.getsid(pid) for pid in workers} == set(workers), "sessions of their own")
    assert field(server, "Threads") == "1"
    for number in range(8):
        broker.push("quick", f"job-{number}", f"p-{number:04d}")
    wait_for(lambda: len(supervised.notes("done")) == 8, "all jobs")
    assert supervised.stop() == 0
    assert not any(is_alive(pid) for pid in supervised.pids)
    assert supervised.status()["state"] == "stopped"
    assert {d["pid"] for d in supervised.lines("deaths.jsonl")} >= set(workers)
    assert all(d["exit"] == 0 for d in supervised.lines("deaths.jsonl"))


def test_a_worker_has_plain_signals_and_none_of_the_servers_files(supervised: Supervised) -> None:
    supervised.start()
    status = supervised.status()
    pid = status["workers"][0]["pid"]
    wait_for(lambda: int(field(pid, "SigBlk"), 16) == 0, "signals that are let in")
    assert int(field(pid, "SigCgt"), 16) & (1 << (signal.SIGCHLD - 1)) == 0
    assert os.readlink(f"/proc/{pid}/fd/0") == "/dev/null"
    pipes = [
        {os.readlink(f"/proc/{p}/fd/{fd}") for fd in os.listdir(f"/proc/{p}/fd")}
        for p in (pid, status["fork_server"])
    ]
    assert not {f for f in pipes[0] & pipes[1] if f.startswith("pipe:")}


@pytest.mark.parametrize(
    ("app", "words"),
    [
        ("no_such_module:app", "ModuleNotFoundError"),
        ("supervised_app:no_such_name", "AttributeError"),
        ("supervised_app:fail_to_load", "RuntimeError: no such database"),
        ("supervised_app:not_an_application", "want an Application"),
        ("supervised_app:make_slow_app", "timeout_s of job 'slow' is 60; it must be below"),
        ("supervised_app:leave_a_socket", "left 1 sockets open"),
    ],
)
def test_an_application_that_cannot_be_served_ends_the_supervisor_with_one_line(
    supervised: Supervised, app: str, words: str
) -> None:
    supervised.config["app"] = app
    assert supervised.launch().wait(30) == 1
    last = supervised.log().splitlines()[-1]
    assert last.startswith("supervisor: ")
    assert words in last


def test_a_boot_that_leaves_a_thread_is_refused(supervised: Supervised) -> None:
    supervised.config["app"] = "supervised_app:leave_a_thread"
    assert supervised.launch().wait(30) == 1
    assert "left 1 threads running" in supervised.log().splitlines()[-1]


def test_a_boot_that_takes_too_long_is_ended(supervised: Supervised) -> None:
    supervised.config.update(app="supervised_app:load_for_ever", boot_timeout_s=0.5)
    assert supervised.launch().wait(30) == 1
    assert "took longer than 0.5 s" in supervised.log().splitlines()[-1]


def test_a_stop_during_the_boot_ends_everything(supervised: Supervised) -> None:
    supervised.config["app"] = "supervised_app:load_for_ever"
    supervised.launch()
    wait_for(lambda: supervised.notes("loading"), "the boot")
    assert supervised.stop() == 0
    assert not is_alive(int(supervised.notes("loading")[0][2]))


def test_a_second_supervisor_on_the_same_directory_is_refused(supervised: Supervised) -> None:
    supervised.start()
    other = Supervised(supervised.root, supervised.port)
    assert other.launch().wait(30) == 2
    assert "another supervisor" in supervised.log()
    assert supervised.workers()


def test_a_stranger_on_the_lease_socket_is_turned_away(supervised: Supervised) -> None:
    supervised.start()
    path = supervised.state_dir / "lease.sock"
    assert path.stat().st_mode & 0o777 == 0o600
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as stranger:
        stranger.connect(str(path))
        stranger.sendall(b'{"op":"hold","lease":"x","lease_s":8.0,"requested_ns":0}\n')
        stranger.settimeout(10)
        try:
            answer = stranger.recv(1)
        except ConnectionResetError:
            answer = b""
    assert answer == b""
    assert len(supervised.workers()) == 2
