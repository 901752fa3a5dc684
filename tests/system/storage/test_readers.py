"""Readers of a store beside a writer who needs it alone."""

from __future__ import annotations

import threading

from atleastonce.system.storage.readers import Readers

PATIENCE_S = 20.0


def test_a_writer_gets_in_although_short_reads_never_pause() -> None:
    readers = Readers()
    ended = threading.Event()
    begun = threading.Barrier(4)

    def read_on() -> None:
        begun.wait(PATIENCE_S)
        while not ended.is_set():
            with readers.reading() as is_open:
                assert is_open

    threads = [threading.Thread(target=read_on, daemon=True) for _ in range(3)]
    for thread in threads:
        thread.start()
    begun.wait(PATIENCE_S)
    got_in = threading.Event()

    def write() -> None:
        for _ in range(50):
            with readers.alone():
                pass
        got_in.set()

    threading.Thread(target=write, daemon=True).start()
    assert got_in.wait(PATIENCE_S)
    ended.set()
    for thread in threads:
        thread.join(PATIENCE_S)
        assert not thread.is_alive()


def test_short_reads_go_on_while_a_writer_waits_for_a_long_one() -> None:
    readers = Readers()
    order: list[str] = []
    wants, done = threading.Event(), threading.Event()

    def write() -> None:
        wants.set()
        with readers.alone():
            order.append("alone")
        done.set()

    with readers.reading(is_long=True):
        writer = threading.Thread(target=write, daemon=True)
        writer.start()
        assert wants.wait(PATIENCE_S)
        for _ in range(100):
            with readers.reading():
                order.append("short")
        order.append("long")
    assert done.wait(PATIENCE_S)
    assert order == ["short"] * 100 + ["long", "alone"]


def test_nobody_reads_what_is_closed() -> None:
    readers = Readers()
    with readers.reading() as is_open:
        assert is_open
    readers.close()
    with readers.reading() as is_open:
        assert not is_open
