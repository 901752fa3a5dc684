"""What is done for the memory that workers share."""

from __future__ import annotations

import subprocess
import sys

from atleastonce.system.supervisor.fork_memory import POOL_BYTES

# In a process of its own: after a long life there are more free blocks than are ever filled.
STREWN = """
from atleastonce.system.supervisor.fork_memory import fill_free_blocks
strewn = [bytes(31) for _ in range(10_000)]
kept = strewn[::50]
del strewn
fill_free_blocks()
fresh = [bytes(31) for _ in range(512)]
print(len({id(block) // 4096 for block in fresh}), len(kept))
"""

# Whole pools of each size are given back in another order than they were filled in.
SCRAMBLED = """
import random
from atleastonce.system.supervisor.fork_memory import POOL_BYTES, fill_free_blocks
print(fill_free_blocks())
for size in range(48, 513, 16):
    blocks = [bytes(size - 33) for _ in range(POOL_BYTES // size * 20)]
    random.Random(size).shuffle(blocks)
    while blocks:
        blocks.pop()
fill_free_blocks()
print(fill_free_blocks())
"""


def test_new_objects_lie_close_together_once_the_free_blocks_are_filled() -> None:
    done = subprocess.run(
        [sys.executable, "-c", STREWN], capture_output=True, text=True, check=True
    )
    pages, kept = map(int, done.stdout.split())
    assert kept == 200
    # 512 blocks of 64 bytes fill eight pages.
    assert pages <= 12


def test_filling_is_bounded_and_costs_little_when_repeated() -> None:
    done = subprocess.run(
        [sys.executable, "-c", SCRAMBLED], capture_output=True, text=True, check=True
    )
    first, repeated = map(int, done.stdout.split())
    assert 0 < first < 2 << 20
    assert repeated <= 2 * POOL_BYTES, "pools that were all free were taken for used ones"
