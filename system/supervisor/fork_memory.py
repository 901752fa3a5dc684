"""Memory of a process that is about to be forked: what is shared stays shared for longest.

A page is shared until a process writes to it. CPython 3.11 writes to an object's page whenever it
takes a reference, so nothing keeps a page that is used. What can be kept apart are new objects:
they go to the first free block of their size, and after an import free blocks are strewn over many
pages. Filled up, they leave new objects no place but pages of their own.
"""

from __future__ import annotations

import gc
import sys
from typing import Final

BLOCK_BYTES_MAX: Final = 512
"""Beyond this size CPython asks the C library."""
BLOCK_STEP: Final = 16
POOL_BYTES: Final = 16 << 10
POOL_HEAD_BYTES: Final = 48
FILL_BYTES_MAX: Final = 1 << 20
"""For each size, where pools do not look as expected."""

_EMPTY_BYTES: Final = sys.getsizeof(b"")
_filling: list[bytes] = []


def prepare_to_fork() -> None:
    """Collect garbage, fill the free blocks, and leave what exists to no later collection."""
    gc.collect()
    fill_free_blocks()
    gc.freeze()


def fill_free_blocks() -> int:
    """Fill the free blocks of each size that CPython allocates by itself.

    Returns:
        How many bytes that took; they are kept for ever.
    """
    smallest = -(-_EMPTY_BYTES // BLOCK_STEP) * BLOCK_STEP
    return sum(_fill(size) for size in range(smallest, BLOCK_BYTES_MAX + 1, BLOCK_STEP))


def _fill(size: int) -> int:
    """Fill the free blocks of one size, until a pool that was all free is given in one piece.

    Its blocks need not come in order: a pool that held this size before hands them out as they
    were given back.
    """
    capacity = (POOL_BYTES - POOL_HEAD_BYTES) // size
    blocks: list[bytes] = []
    run, pool = 0, -1
    while run < capacity and len(blocks) * size < FILL_BYTES_MAX:
        block = bytes(size - _EMPTY_BYTES)
        blocks.append(block)
        run = run + 1 if id(block) // POOL_BYTES == pool else 1
        pool = id(block) // POOL_BYTES
    if run == capacity:
        del blocks[-run:]
    _filling.extend(blocks)
    return len(blocks) * size
