"""What is done for the memory that workers share."""

from __future__ import annotations

import subprocess
import sys

from atleastonce.system.supervisor.fork_memory import fill_free_blocks

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


def test_new_objects_lie_close_together_once_the_free_blocks_are_filled() -> None:
    done = subprocess.run(
        [sys.executable, "-c", STREWN], capture_output=True, text=True, check=True
    )
    pages, kept = map(int, done.stdout.split())
    assert kept == 200
    # 512 blocks of 64 bytes fill eight pages.
    assert pages <= 12


def test_filling_is_bounded_and_costs_little_when_repeated() -> None:
    fill_free_blocks()
    assert fill_free_blocks() < 2 << 20
