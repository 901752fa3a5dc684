"""The log in memory."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from atleastonce.system.raft.log import RaftLog
from atleastonce.system.raft.messages import Entry, EntryKind
from atleastonce.verifier.simulation.scripted import entries_of

term_lists = st.lists(st.integers(1, 5), max_size=20).map(sorted)


@given(term_lists, st.integers(1, 30))
def test_lookups_agree_with_a_plain_scan(terms: list[int], start: int) -> None:
    log = RaftLog(entries_of(terms, start), start, 1)
    held = dict(enumerate(terms, start))
    assert log.last_index == start + len(terms) - 1
    assert log.last_term == (terms[-1] if terms else 1)
    for index in range(start + len(terms) + 2):
        expected = 1 if index == start - 1 else held.get(index)
        assert log.term_at(index) == expected
    for term in range(7):
        indexes = [index for index, held_term in held.items() if held_term == term]
        later = [index for index, held_term in held.items() if held_term >= term]
        if term == 1 and not indexes:
            indexes = [start - 1]
        assert log.last_index_of(term) == (indexes[-1] if indexes else None)
        assert log.first_index_of(term) == (later[0] if later else log.last_index + 1)


@given(term_lists.filter(bool), st.data())
def test_truncation_leaves_exactly_the_entries_before(
    terms: list[int], data: st.DataObject
) -> None:
    log = RaftLog(entries_of(terms))
    index = data.draw(st.integers(1, len(terms)))
    log.truncate_from(index)
    assert len(log) == log.last_index == index - 1
    assert log.last_term == (terms[index - 2] if index > 1 else 0)
    log.append(entries_of([7], index))
    assert log.entry_at(index).term == 7


@given(term_lists, st.integers(1, 21), st.integers(1, 5), st.integers(1, 30))
def test_a_batch_keeps_both_limits_but_is_never_empty_without_need(
    terms: list[int], first: int, entries_max: int, bytes_max: int
) -> None:
    log = RaftLog(entries_of(terms))
    batch = log.batch(first, entries_max, bytes_max)
    assert [entry.index for entry in batch] == list(range(first, first + len(batch)))
    assert len(batch) <= entries_max
    assert bool(batch) == (first <= log.last_index)
    assert len(batch) <= 1 or sum(len(entry.data) for entry in batch) <= bytes_max


def test_a_log_that_starts_late_knows_the_term_before_its_start() -> None:
    log = RaftLog(entries_of([4, 5], 11), 11, 3)
    assert [log.term_at(index) for index in (9, 10, 11, 12, 13)] == [None, 3, 4, 5, None]
    assert log.is_up_to_date(12, 5)
    assert not log.is_up_to_date(11, 5)


@pytest.mark.parametrize(
    ("entry", "name"),
    [
        (Entry(2, 4, EntryKind.COMMAND, b""), "log-gap"),
        (Entry(2, 2, EntryKind.COMMAND, b""), "log-gap"),
        (Entry(1, 3, EntryKind.COMMAND, b""), "log-term"),
    ],
)
def test_an_entry_that_does_not_continue_the_log_breaks_an_invariant(
    entry: Entry, name: str
) -> None:
    log = RaftLog(entries_of([1, 2]))
    with pytest.raises(AssertionError, match=name):
        log.append((entry,))


@pytest.mark.parametrize("index", [0, 3])
def test_truncation_outside_the_log_breaks_an_invariant(index: int) -> None:
    log = RaftLog(entries_of([1, 2]))
    with pytest.raises(AssertionError, match="truncate-range"):
        log.truncate_from(index)
