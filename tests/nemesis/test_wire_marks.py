"""Which faults a packet's comment names."""

from __future__ import annotations

from pathlib import Path

from atleastonce.nemesis.wire.marks import NO_FAULT, Mark, MarkReader, Marks, MarkWriter

LINK, BACK = ("n1", "n2"), ("n2", "n1")
SECOND = 1_000_000_000


def test_faults_are_named_on_their_links_while_they_act() -> None:
    marks = Marks()
    marks.take(Mark("a", 10, [LINK]))
    marks.take(Mark("b", 20, [LINK, BACK]))
    marks.take(Mark("a", 30))

    assert [marks.at(LINK, t_ns) for t_ns in (9, 10, 19, 20, 30, 31)] == [
        *(NO_FAULT, "a", "a", "a,b", "a,b", "b"),
    ]
    assert [marks.at(BACK, t_ns) for t_ns in (19, 20, 99)] == [NO_FAULT, "b", "b"]
    assert marks.at(("n1", "n3"), 20) == NO_FAULT


def test_a_name_that_comes_again_acts_twice() -> None:
    marks = Marks()
    for t_ns in (10, 30):
        marks.take(Mark("a", t_ns, [LINK]))
        marks.take(Mark("a", t_ns + 5))

    assert [marks.at(LINK, t_ns) for t_ns in (12, 20, 32, 40)] == ["a", NO_FAULT, "a", NO_FAULT]


def test_what_is_long_over_is_forgotten_and_what_goes_on_is_not() -> None:
    marks = Marks()
    marks.take(Mark("a", 1, [LINK]))
    marks.take(Mark("open", 1, [LINK]))
    marks.take(Mark("a", 2))
    marks.take(Mark("b", 60 * SECOND, [LINK]))
    marks.take(Mark("b", 61 * SECOND))

    assert marks.at(LINK, 1) == "open"
    assert marks.at(LINK, 60 * SECOND) == "open,b"


def test_marks_are_read_as_they_are_written_a_torn_line_later(tmp_path: Path) -> None:
    path = tmp_path / "marks.jsonl"
    writer = MarkWriter(path)
    reader = MarkReader(path)
    reader.update()
    writer.begin("a", {LINK: 1})
    reader.update()
    mark = Mark("b", 5, [BACK])
    with path.open("ab") as file:
        file.write(b'{"fault":"b","t_')
        file.flush()
        reader.update()
        assert reader.marks.at(BACK, mark.t_ns) == NO_FAULT
        file.write(b'ns":5,"links":[["n2","n1"]]}\n')
    reader.update()

    assert reader.marks.at(BACK, mark.t_ns) == "b"
    assert reader.marks.at(LINK, 1 << 62) == "a"
    writer.end("a")
    reader.update()
    assert reader.marks.at(LINK, 1 << 62) == NO_FAULT
    writer.close()
    reader.close()
