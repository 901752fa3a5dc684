"""Markers, lease messages, payloads, settings, application and deliveries."""

from __future__ import annotations

import os
import signal
import socket
from pathlib import Path

import msgspec
import pytest

from atleastonce.system.jobs import (
    Application,
    ConnectionSettings,
    JobContext,
    NotAJobError,
    WorkerSettings,
    decode_job,
    payload_digest,
)
from atleastonce.system.jobs.application import JobSpec
from atleastonce.system.jobs.context import JobFailed, JobReleased, clean_text, error_text
from atleastonce.system.jobs.events import AttemptAcked
from atleastonce.system.jobs.exitmark import ExitMark, clear_marks, take_mark, write_mark
from atleastonce.system.jobs.leasewire import (
    Forget,
    Hold,
    LeaseChannel,
    LeaseChannelBrokenError,
    Shutdown,
    decode_lease_message,
    encode_lease_message,
)
from atleastonce.system.jobs.payload import copy_payload, copy_txn, encode_data, partition_of

from .deliveries import make_delivery, make_message

CONTEXT = JobContext("j", "work", 1, 3, "r", "L", "q", "p")
ENDPOINTS = (("127.0.0.1", 6632),)


def settings(**changes: object) -> WorkerSettings:
    base = {"queue": "q", "endpoints": ENDPOINTS, "state_dir": "/x", **changes}
    return msgspec.convert(base, WorkerSettings)


KILLED = signal.SIGKILL.value


@pytest.mark.parametrize(
    ("mark", "status", "counts"),
    [
        (ExitMark.TIMEOUT, KILLED, True),
        (ExitMark.TIMEOUT, 0, False),
        (ExitMark.MEMORY, 12 << 8, True),
        (ExitMark.MEMORY, KILLED, False),
        (ExitMark.RESTART, 0, True),
        (ExitMark.RESTART, 1 << 8, False),
    ],
)
def test_marker_counts_only_with_its_own_exit(
    tmp_path: Path, mark: ExitMark, status: int, counts: bool
) -> None:
    write_mark(tmp_path, 7, mark)
    assert take_mark(tmp_path, 7, status) == (mark if counts else None)
    assert list(tmp_path.iterdir()) == []


def test_marker_is_taken_once(tmp_path: Path) -> None:
    write_mark(tmp_path, 7, ExitMark.TIMEOUT)
    assert take_mark(tmp_path, 7, KILLED) is ExitMark.TIMEOUT
    assert take_mark(tmp_path, 7, KILLED) is None


def test_unreadable_marker_counts_for_nothing(tmp_path: Path) -> None:
    (tmp_path / "7.exit").write_text("bored")
    assert take_mark(tmp_path, 7, KILLED) is None


def test_markers_of_earlier_workers_are_cleared(tmp_path: Path) -> None:
    write_mark(tmp_path, 7, ExitMark.MEMORY)
    clear_marks(tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("message", [Hold("L", 8.0, 5), Forget("L"), Shutdown()])
def test_lease_message_is_one_line_and_is_read_back(message: Hold | Forget | Shutdown) -> None:
    line = encode_lease_message(message)
    assert line.count(b"\n") == 1
    assert decode_lease_message(line) == message


def test_lease_messages_have_the_agreed_shape() -> None:
    assert msgspec.json.decode(encode_lease_message(Hold("L", 8.0, 5))) == {
        "op": "hold",
        "lease": "L",
        "lease_s": 8.0,
        "requested_ns": 5,
    }
    assert msgspec.json.decode(encode_lease_message(Shutdown())) == {"op": "shutdown"}


@pytest.mark.parametrize("line", [b"", b"{}", b'{"op":"grab"}', b'{"op":"forget"}', b"\xff"])
def test_what_is_not_a_lease_message_is_refused(line: bytes) -> None:
    with pytest.raises(msgspec.DecodeError):
        decode_lease_message(line)


def test_lease_channel_without_a_master_does_nothing() -> None:
    channel = LeaseChannel(None)
    channel.connect()
    channel.hold("L", 1.0, 1)
    assert not channel.is_broken()


def test_lease_channel_whose_master_leaves_is_broken(tmp_path: Path) -> None:
    path = tmp_path / "s"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()
        channel = LeaseChannel(path)
        channel.connect()
        master, _ = listener.accept()
        assert not channel.is_broken()
        master.close()
        assert channel.is_broken()
        with pytest.raises(LeaseChannelBrokenError):
            channel.forget("L")
        channel.close()
    with pytest.raises(LeaseChannelBrokenError):
        LeaseChannel(tmp_path / "none").connect()


@pytest.mark.parametrize(
    "payload",
    [b"1", b"null", b'{"a":1}', b'{"_job":3}', b'{"_job":{"id":"x","data":1}}', b'"\xff"'],
)
def test_payload_without_a_job_is_named_as_such(payload: bytes) -> None:
    with pytest.raises(NotAJobError, match="not a job"):
        decode_job(payload)


def test_copy_changes_nothing_but_the_attempts() -> None:
    text = b'{"_job":{"job":"w","id":"x","data":{"b":1,"a":[2.50]},"tries":4,"backoff_s":[1,2]}}'
    body = decode_job(text)
    copy = decode_job(msgspec.json.encode(copy_payload(body, 2)))
    assert copy.attempts == 2
    assert bytes(copy.data) == b'{"b":1,"a":[2.50]}'
    assert (copy.tries, copy.backoff_s) == (4, (1.0, 2.0))
    assert msgspec.structs.replace(copy, attempts=0) == body


def test_digest_does_not_depend_on_the_order_of_keys() -> None:
    assert payload_digest({"a": 1, "b": [1, 2]}) == payload_digest(
        msgspec.Raw(b'{ "b":[1,2], "a":1 }')
    )
    assert payload_digest({"a": 1}) != payload_digest({"a": 2})


def test_jobs_are_spread_over_every_partition_and_always_the_same() -> None:
    found = {partition_of(f"job-{n}", 16) for n in range(400)}
    assert found == {f"p-{n:04d}" for n in range(16)}
    assert partition_of("x", 16) == partition_of("x", 16)


def test_copies_differ_by_message_and_by_reason() -> None:
    names = {
        copy_txn("j", "t", "retry:1"),
        copy_txn("j", "t", "retry:2"),
        copy_txn("j", "u", "retry:1"),
    }
    assert len(names) == 3
    assert copy_txn("j", "t", "retry:1") in names


def test_data_that_json_cannot_hold_is_refused() -> None:
    with pytest.raises(TypeError):
        encode_data({"x": object()})


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"prefetch": 0}, "prefetch is 0; allowed: 1 to 1000"),
        ({"partitions": 2000}, "partitions is 2000"),
        ({"endpoints": ()}, "endpoints is empty"),
        ({"queue": ""}, "queue is empty"),
        ({"timeout_s": 90.0}, "must exceed timeout_s 90"),
        ({"retry_after_s": 0.5, "timeout_s": 0.1}, "retry_after_s is 0.5; allowed: 1 or more"),
        ({"sleep_s": -1.0}, "sleep_s is -1"),
        ({"deadline_s": 0.0}, "deadline_s is 0"),
        ({"colour": "red"}, "colour"),
    ],
)
def test_settings_that_cannot_work_name_the_value(changes: dict[str, object], text: str) -> None:
    with pytest.raises(msgspec.ValidationError, match=text):
        settings(**changes)


def test_settings_survive_json() -> None:
    made = settings(prefetch=4, bugs=("async-ack-unwritten",), lease_socket="/x/s")
    assert msgspec.json.decode(msgspec.json.encode(made), type=WorkerSettings) == made


def test_connection_settings_are_checked_too() -> None:
    with pytest.raises(ValueError, match="consumer_group is empty"):
        ConnectionSettings(endpoints=ENDPOINTS, consumer_group="")


def test_function_and_class_are_registered_by_name() -> None:
    app = Application()
    told: list[object] = []

    @app.job(tries=2)
    def plain(context: JobContext, payload: object) -> None:
        told.append(("plain", payload))

    @app.job("classy", timeout_s=3)
    class Classy:
        def __init__(self, payload: object) -> None:
            self.payload = payload

        def handle(self, context: JobContext) -> None:
            told.append(("classy", self.payload, context.job_id))

        def failed(self, error: str) -> None:
            told.append(("failed", self.payload, error))

    assert app.job_names == ("plain", "classy")
    first, second = app.find("plain"), app.find("classy")
    assert first is not None
    assert second is not None
    assert (first.tries, first.failed, second.timeout_s) == (2, None, 3)
    first.run(CONTEXT, 1)
    second.run(CONTEXT, 2)
    assert second.failed is not None
    second.failed(2, "bad")
    assert told == [("plain", 1), ("classy", 2, "j"), ("failed", 2, "bad")]
    assert app.find("other") is None


def test_registration_refuses_a_taken_name_and_negative_numbers() -> None:
    app = Application()
    app.add(JobSpec("a", lambda context, payload: None))
    with pytest.raises(ValueError, match="'a' is registered already"):
        app.add(JobSpec("a", lambda context, payload: None))
    with pytest.raises(ValueError, match="tries of job 'b' is -1"):
        app.add(JobSpec("b", lambda context, payload: None, tries=-1))
    with pytest.raises(ValueError, match="backoff_s of job 'c'"):
        app.add(JobSpec("c", lambda context, payload: None, backoff_s=(1, -1)))


def test_listeners_hear_their_own_events_in_order() -> None:
    app = Application()
    heard: list[str] = []
    app.listen(AttemptAcked, lambda event: heard.append("first " + event.run))
    app.listen(AttemptAcked, lambda event: heard.append("second " + event.run))
    app.notify(AttemptAcked("j", "r"))
    assert heard == ["first r", "second r"]


def test_release_and_fail_end_the_handler_whatever_it_catches() -> None:
    assert not issubclass(JobReleased, Exception)
    assert not issubclass(JobFailed, Exception)
    with pytest.raises(JobReleased):
        CONTEXT.release(2)
    with pytest.raises(JobFailed, match="ValueError: no"):
        CONTEXT.fail(ValueError("no"))
    with pytest.raises(ValueError, match="delay_s is -1"):
        CONTEXT.release(-1)


def test_error_text_fits_every_store() -> None:
    text = error_text(ValueError(os.fsdecode(b"\xff bad")))
    assert text == "ValueError: \\udcff bad"
    assert len(clean_text("x" * 10_000)) == 4000


def test_attempt_number_is_attempts_plus_delivery_count() -> None:
    delivery = make_delivery(make_message("j", attempts=2, delivery_attempt=3))
    assert delivery.attempt == 5
    assert make_delivery(make_message("j", delivery_attempt=0)).attempt == 1


def test_job_overrides_registration_overrides_worker() -> None:
    app = Application()
    app.add(JobSpec("work", lambda context, payload: None, None, 5, (7,), 8))
    from atleastonce.system.jobs.delivery import read_delivery

    worker = settings(tries=2, backoff_s=(1.0, 3.0), timeout_s=9.0)
    plain = make_delivery(make_message("j", attempts=4))
    assert (plain.tries(worker), plain.timeout_s(worker), plain.pause_s(worker)) == (2, 9.0, 3.0)
    registered = read_delivery(app, make_message("j"))
    assert registered.tries(worker) == 5
    assert (registered.timeout_s(worker), registered.pause_s(worker)) == (8, 7)
    own = b'{"_job":{"job":"work","id":"j","data":1,"tries":9,"timeout_s":0.5,"backoff_s":[4]}}'
    delivery = read_delivery(app, make_message("j", data=own))
    assert (delivery.tries(worker), delivery.timeout_s(worker)) == (9, 0.5)
    assert delivery.pause_s(worker) == 4


def test_unknown_job_is_a_problem_but_still_a_job() -> None:
    data = b'{"_job":{"job":"gone","id":"j","data":1}}'
    delivery = make_delivery(make_message("j", data=data))
    assert delivery.problem == "not a job: nothing is registered as 'gone'"
    assert delivery.body is not None
