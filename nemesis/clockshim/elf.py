"""A shared library for the dynamic linker of Linux on x86-64: ELF, as little of it as will do.

Four pages, of which offsets in the file are addresses too: headers and symbols (readable), code
(executable), what the dynamic linker fills in (writable), and data that nobody but the file's
writer changes (readable). There are no sections; nothing but debuggers looks for them.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Final

from .assembly import Code

PAGE_BYTES: Final = 0x1000
CODE_AT: Final = 1 * PAGE_BYTES
LINKED_AT: Final = 2 * PAGE_BYTES
SLOTS_AT: Final = LINKED_AT + PAGE_BYTES // 2
"""Where the addresses of imported functions lie, eight bytes each."""

DATA_AT: Final = 3 * PAGE_BYTES
FILE_BYTES: Final = 4 * PAGE_BYTES

_HEADER_BYTES: Final = 64
_SEGMENT_BYTES: Final = 56
_SYMBOL_BYTES: Final = 24
_RELOCATION_BYTES: Final = 24
_SHARED_OBJECT: Final = 3
_X86_64: Final = 62
_LOAD: Final = 1
_DYNAMIC: Final = 2
_STACK: Final = 0x6474E551
_READ: Final = 4
_WRITE: Final = 2
_EXECUTE: Final = 1
_GLOBAL_FUNCTION: Final = 0x12
_SOMEWHERE: Final = 1
"""Section of a defined symbol: any but 0 (undefined) and the reserved ones, as there are none."""

_SLOT_OF_SYMBOL: Final = 6
"""R_X86_64_GLOB_DAT: a slot gets a symbol's address, before anything of the program runs."""


def slot_of(number: int) -> int:
    """Where the address of an imported function lies, counted from 0."""
    return SLOTS_AT + 8 * number


def shared_library(soname: str, code: Code, imports: Sequence[str], data: bytes) -> bytes:
    """Return the file of a library.

    Args:
        soname: Its name.
        code: Assembled for `CODE_AT`; each of its entries is a global function.
        imports: Functions of other libraries, found when it is loaded; see `slot_of`.
        data: What lies at `DATA_AT`.

    Raises:
        ValueError: Something is larger than the page that it has.
    """
    names = (*imports, *code.entries)
    strings, place = _strings((soname, *names))
    symbols = bytes(_SYMBOL_BYTES)
    for name in imports:
        symbols += struct.pack("<IBBHQQ", place(name), _GLOBAL_FUNCTION, 0, 0, 0, 0)
    for name, entry in code.entries.items():
        at = CODE_AT + entry
        symbols += struct.pack("<IBBHQQ", place(name), _GLOBAL_FUNCTION, 0, _SOMEWHERE, at, 0)
    relocations = b"".join(
        struct.pack("<QQq", slot_of(number), (number + 1) << 32 | _SLOT_OF_SYMBOL, 0)
        for number in range(len(imports))
    )
    segments = _segments()
    at = _HEADER_BYTES + len(segments)
    tables = b""
    begins = []
    for table in (_hash(len(names)), symbols, relocations, strings):
        begins.append(at + len(tables))
        tables += table + bytes(-len(table) % 8)
    hash_at, symbols_at, relocations_at, strings_at = begins
    dynamic = b"".join(
        struct.pack("<qQ", tag, value)
        for tag, value in (
            (14, place(soname)),
            (4, hash_at),
            (5, strings_at),
            (6, symbols_at),
            (10, len(strings)),
            (11, _SYMBOL_BYTES),
            (7, relocations_at),
            (8, len(relocations)),
            (9, _RELOCATION_BYTES),
            (0, 0),
        )
    )
    head = _header(len(segments) // _SEGMENT_BYTES) + segments + tables
    linked = dynamic.ljust(SLOTS_AT - LINKED_AT, b"\0") + bytes(8 * len(imports))
    return b"".join(_page(part) for part in (head, code.text, linked, data))


def _page(part: bytes) -> bytes:
    if len(part) > PAGE_BYTES:
        raise ValueError(f"{len(part)} bytes do not fit into a page of {PAGE_BYTES}")
    return part.ljust(PAGE_BYTES, b"\0")


def _header(segments: int) -> bytes:
    identity = b"\x7fELF" + bytes((2, 1, 1)) + bytes(9)
    return identity + struct.pack(
        "<HHIQQQIHHHHHH",
        *(_SHARED_OBJECT, _X86_64, 1, 0, _HEADER_BYTES, 0, 0),
        *(_HEADER_BYTES, _SEGMENT_BYTES, segments, 0, 0, 0),
    )


def _segments() -> bytes:
    pages = (
        (0, _READ),
        (CODE_AT, _READ | _EXECUTE),
        (LINKED_AT, _READ | _WRITE),
        (DATA_AT, _READ),
    )
    made = [
        struct.pack("<IIQQQQQQ", _LOAD, flags, at, at, at, PAGE_BYTES, PAGE_BYTES, PAGE_BYTES)
        for at, flags in pages
    ]
    size, flags = SLOTS_AT - LINKED_AT, _READ | _WRITE
    made.append(
        struct.pack("<IIQQQQQQ", _DYNAMIC, flags, LINKED_AT, LINKED_AT, LINKED_AT, size, size, 8)
    )
    made.append(struct.pack("<IIQQQQQQ", _STACK, flags, 0, 0, 0, 0, 0, 16))
    return b"".join(made)


def _strings(names: Sequence[str]) -> tuple[bytes, Callable[[str], int]]:
    """The table of names, and where each begins in it."""
    table = b"\0" + b"".join(name.encode("ascii") + b"\0" for name in names)
    return table, lambda name: table.index(b"\0" + name.encode("ascii") + b"\0") + 1


def _hash(symbols: int) -> bytes:
    """A table of one bucket, in which all symbols follow each other; the null symbol is 0."""
    chain = [0, *range(2, symbols + 1), 0]
    return struct.pack(f"<{3 + len(chain)}I", 1, len(chain), 1, *chain)
