"""What is done for the memory that workers share."""

from __future__ import annotations

from atleastonce.system.supervisor.fork_memory import fill_free_blocks

PAGE_BYTES = 4096


def test_new_objects_lie_close_together_once_the_free_blocks_are_filled() -> None:
    strewn = [bytes(31) for _ in range(10_000)]
    kept = strewn[::50]
    del strewn
    fill_free_blocks()
    fresh = [bytes(31) for _ in range(512)]
    pages = {id(block) // PAGE_BYTES for block in fresh}
    assert len(kept) == 200
    # 512 blocks of 64 bytes fill eight pages.
    assert len(pages) <= 12


def test_filling_is_bounded_and_costs_little_when_repeated() -> None:
    fill_free_blocks()
    assert fill_free_blocks() < 2 << 20
