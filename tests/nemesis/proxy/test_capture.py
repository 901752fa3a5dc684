"""What the proxy captures: both stages of each link, with verdict, fault and time."""

from __future__ import annotations

from pathlib import Path

import trio

from atleastonce.histories.pcapng import Seen, read_folder
from atleastonce.nemesis.links import LinkRule
from atleastonce.nemesis.proxy.capture import Capture
from atleastonce.nemesis.proxy.control import CapturePlan, Way

from .proxy_rig import Rig, read, rig, until

WAY = Way("n1", "n2", "client", ("127.77.1.2", 1), ("127.0.0.1", 1))


def payload(seen: Seen) -> bytes:
    return seen.frame[54:]


def test_a_chunk_is_captured_where_it_was_sent_and_where_it_was_delivered(tmp_path: Path) -> None:
    capture = Capture(CapturePlan(str(tmp_path), 1 << 20, 4), [WAY])

    async def main() -> None:
        async with rig(tap=capture.tap) as here, await here.dial() as stream:
            await stream.send_all(b"before")
            await read(stream, 6)
            await held(here, stream)

    async def held(here: Rig, stream: trio.SocketStream) -> None:
        # The chunk that is read when the cut begins is the one that the proxy holds.
        here.begin(LinkRule(drop=True))
        await stream.send_all(b"during")
        await until(lambda: here.counts().dropped > 0)
        assert not await_delivery()
        here.end()
        await read(stream, 6)

    def await_delivery() -> bool:
        capture.flush()
        return any(
            seen.interface == "n1>n2 delivered" and payload(seen) == b"during"
            for seen in read_folder(tmp_path)
        )

    trio.run(main)
    capture.close()
    seen = [each for each in read_folder(tmp_path) if payload(each)]
    sent = [each for each in seen if each.interface == "n1>n2 sent"]
    assert [payload(each) for each in sent] == [b"before", b"during"]
    assert sent[0].words["verdict"] == "pass"
    assert sent[0].words["fault"] == "-"
    delivered = [payload(each) for each in seen if each.interface == "n1>n2 delivered"]
    assert delivered == [b"before", b"during"]
    times = [int(each.words["mono"]) for each in seen]
    assert times == sorted(times)


def test_scapy_sees_a_handshake_and_numbered_segments(tmp_path: Path) -> None:
    from scapy.layers.inet import TCP
    from scapy.layers.l2 import Ether

    capture = Capture(CapturePlan(str(tmp_path), 1 << 20, 4), [WAY])
    tap = capture.tap(WAY, 4711)
    tap.opened()
    tap.sent(("n1", "n2"), b"x" * 130_000, "pass", "")
    tap.ended(("n1", "n2"), "fin", "")
    capture.close()
    segments = [
        Ether(seen.frame)[TCP] for seen in read_folder(tmp_path) if seen.interface == "n1>n2 sent"
    ]
    assert [str(each.flags) for each in segments] == ["S", "A", "PA", "PA", "PA", "FA"]
    assert [each.seq for each in segments] == [0, 1, 1, 60_001, 120_001, 130_001]
    assert {each.sport for each in segments} == {4711}
