"""Reading captures back: streams, messages, and what is shown around a moment."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from atleastonce.histories.faults import FaultEvent, FaultStage
from atleastonce.histories.pcapng import Seen
from atleastonce.histories.scenario import Scenario, write_scenario
from atleastonce.nemesis.proxy.capture import Capture, frame_of
from atleastonce.nemesis.proxy.control import CapturePlan, Plan, Way
from atleastonce.system.node.frames import Forward, Hello, NodeReport, TryAgain, encode, frame
from atleastonce.system.raft.messages import (
    AppendEntries,
    AppendReply,
    Entry,
    EntryKind,
    encode_message,
)
from atleastonce.verifier.cli import main
from atleastonce.verifier.packets.streams import Streams
from atleastonce.verifier.packets.unpacking import UnpackError, unpack

PEER = Way("n1", "n2", "peer", ("127.77.1.2", 6001), ("127.0.0.1", 6001))
CLIENT = Way("clients", "n2", "client", ("127.77.101.2", 6002), ("127.0.0.1", 6002))
APPEND = frame(
    encode_message(AppendEntries(3, 7, 2, 6, 9, (Entry(3, 8, EntryKind.COMMAND, b"x" * 30),)))
)
ANSWER = frame(encode_message(AppendReply(3, True, 8, 9)))

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(1 << 63), (1 << 64) - 1)
    | st.floats(allow_nan=False)
    | st.text()
    | st.binary(max_size=300),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


@given(VALUES, st.binary())
def test_every_value_is_unpacked_with_what_follows_it(value: object, rest: bytes) -> None:
    assert unpack(msgspec.msgpack.encode(value) + rest) == (value, rest)


@given(st.binary(max_size=40))
def test_junk_is_a_value_or_an_unpack_error(data: bytes) -> None:
    try:
        unpack(data)
    except UnpackError:
        return


def seen_of(data: bytes, seq: int, number: int = 0) -> Seen:
    made = frame_of((1, 4711), (2, 6001), seq, 1, 0x18, data)
    return Seen("n1>n2 sent", number, made, f"verdict=pass fault=- mono={number}")


@given(st.lists(st.integers(0, 400), max_size=6), st.integers(1, 60))
def test_frames_come_out_whole_however_the_stream_was_cut(cuts: list[int], dropped: int) -> None:
    stream = (APPEND + ANSWER) * 3
    places = [0, *sorted(cut for cut in cuts if cut < len(stream)), len(stream)]
    packets = [
        seen_of(stream[begin:end], 1 + begin) for begin, end in pairwise(places) if begin < end
    ]
    items = list(Streams({6001: "peer"}).items(packets))
    assert [item.data for item in items] == [APPEND, ANSWER] * 3
    assert {item.connection for item in items} == {4711}
    # A capture that begins in mid-frame finds the next one.
    late = list(Streams({6001: "peer"}).items([seen_of(stream[dropped:], 1 + dropped)]))
    assert [item.data for item in late] == ([APPEND, ANSWER] * 3)[6 - len(late) :]
    assert len(late) >= 4


@given(st.data())
def test_segments_that_come_early_late_or_again_make_the_same_stream(data: st.DataObject) -> None:
    stream = (APPEND + ANSWER) * 2
    sizes = range(0, len(stream), 37)
    order = data.draw(st.permutations(list(sizes)))
    repeated = data.draw(st.lists(st.sampled_from(list(sizes)), max_size=5))
    base = data.draw(st.sampled_from([1, (1 << 32) - 50]))
    opened = Seen("n1>n2 sent", 0, frame_of((1, 4711), (2, 6001), base - 1, 0, 2, b""), "")
    packets = [seen_of(stream[at : at + 37], base + at) for at in [*order, *repeated]]
    items = list(Streams({6001: "peer"}).items([opened, *packets]))
    assert [item.data for item in items if item.kind == "frame"] == [APPEND, ANSWER] * 2


def make_run(folder: Path) -> Path:
    run = folder / "run"
    (run / "nodes").mkdir(parents=True)
    scenario = Scenario(
        workload="queue",
        nemesis="partition-leader",
        seed=1,
        origin_ns=0,
        host="h",
        boot="b",
        settings={},
        bugs=[],
        versions={},
        plan=[],
        contract={},
    )
    write_scenario(run / "scenario.json", scenario)
    plan = Plan([PEER, CLIENT], "links.sock", 1, 0)
    (run / "links.json").write_bytes(msgspec.json.encode(plan))
    capture = Capture(CapturePlan(str(run / "capture"), 1 << 20, 4), plan.ways)
    tap = capture.tap(PEER, 4711)
    tap.opened()
    hello = Hello("n1", "n2", "raft", b"c" * 32, b"secret proof", "i", "127.0.0.1:1")
    tap.sent(("n1", "n2"), encode(hello) + APPEND, "pass", "")
    tap.sent(("n2", "n1"), ANSWER, "drop", "cut-1")
    forward = Forward(5, "POST", "/api/v1/push", {"authorization": "secret"}, b"{}", "r", 100)
    tap.sent(("n1", "n2"), encode(forward) + encode(NodeReport(False, None)), "pass", "")
    tap.sent(("n2", "n1"), encode(TryAgain(5, False)), "pass", "")
    http = capture.tap(CLIENT, 4712)
    http.opened()
    http.sent(("clients", "n2"), b"GET /x HTTP/1.1\r\nContent-Length: 2\r\n\r\n{}", "pass", "")
    http.sent(("n2", "clients"), b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n", "pass", "")
    capture.close()
    import time

    now_ns = time.monotonic_ns()
    stages: tuple[FaultStage, ...] = ("opened", "effect", "healed")
    events = [
        FaultEvent(fault="cut-1", kind="k", target="n2", event=stage, t_ns=now_ns, wall_ns=0)
        for stage in stages
    ]
    (run / "faults.jsonl").write_bytes(
        b"".join(msgspec.json.encode(event) + b"\n" for event in events)
    )
    ops = [
        {"index": 0, "process": 1, "type": "invoke", "f": "send", "value": {}, "time_ns": now_ns},
        {"index": 1, "process": 2, "type": "invoke", "f": "send", "value": {}, "time_ns": 1},
        {"index": 2, "process": 1, "type": "ok", "f": "send", "value": {}, "time_ns": now_ns},
    ]
    (run / "history.jsonl").write_bytes(b"".join(msgspec.json.encode(op) + b"\n" for op in ops))
    return run


def test_what_is_shown_around_a_fault_names_kind_term_index_and_verdict(tmp_path: Path) -> None:
    run = make_run(tmp_path)
    shown = CliRunner().invoke(main, ["packets", str(run), "--around", "cut-1", "--window", "600"])
    assert shown.exit_code == 0, shown.output
    for words in (
        "cut-1 of n2: effect",
        "appends term 3 prev 7/2 commit 6 round 9 entries 8..8 (1, 30 B)",
        "append-answers term 3 matches 8 round 9",
        "drop ",
        "forward 5 POST /api/v1/push",
        "GET /x (2 B)",
        "200 OK (0 B)",
        "syn",
    ):
        assert words in shown.output, words
    assert "secret" not in shown.output


def test_json_has_entries_as_objects_and_no_secret(tmp_path: Path) -> None:
    run = make_run(tmp_path)
    shown = CliRunner().invoke(
        main, ["packets", str(run), "--around", "2", "--window", "600", "--json"]
    )
    assert shown.exit_code == 0, shown.output
    told = msgspec.json.decode(shown.output)
    assert [moment["text"] for moment in told["moments"]] == ["op 2: send ok", "op 0: send invoke"]
    appends = [message for message in told["messages"] if message["kind"] == "appends"]
    assert appends[0]["entries"] == [{"term": 3, "index": 8, "kind": "command", "bytes": 30}]
    assert {message["fault"] for message in told["messages"]} == {"", "cut-1"}
    assert "secret" not in shown.output


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--around", "cut-9"], ["--around 'cut-9'", "cut-1"]),
        (["--around", "99"], ["--around '99'", "index"]),
        (["--around", "cut-1", "--window", "0"], ["--window 0", "above 0"]),
    ],
)
def test_bad_names_are_one_line_and_status_2(
    tmp_path: Path, arguments: list[str], words: list[str]
) -> None:
    shown = CliRunner().invoke(main, ["packets", str(make_run(tmp_path)), *arguments])
    assert shown.exit_code == 2
    assert shown.stderr.count("\n") == 1
    assert all(word in shown.stderr for word in words), shown.stderr


def test_a_run_without_capture_says_how_to_get_one(tmp_path: Path) -> None:
    run = make_run(tmp_path)
    for path in (run / "capture").iterdir():
        path.unlink()
    shown = CliRunner().invoke(main, ["packets", str(run), "--around", "cut-1"])
    assert shown.exit_code == 2
    assert "verify run --capture" in shown.stderr
