"""A shared library and its code, put together byte by byte."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Sequence
from pathlib import Path

import pytest

from atleastonce.nemesis.clockshim.assembly import Assembly, Instruction
from atleastonce.nemesis.clockshim.elf import (
    CODE_AT,
    DATA_AT,
    FILE_BYTES,
    PAGE_BYTES,
    shared_library,
    slot_of,
)


def numbers(data: bytes = b"") -> bytes:
    """A library of a few functions that return numbers."""
    code = Assembly(CODE_AT)
    seven = code.function("seven", {"": ("b8 07 00 00 00", "c3")})  # mov eax, 7; ret
    code.function("also_seven", {"": (("e8", seven), "c3")})  # call; ret
    code.function("data", {"": (("48 8b 05", DATA_AT), "c3")})  # mov rax, [data]; ret
    code.function("imported", {"": (("ff 25", slot_of(1)),)})  # jmp [slot]
    code.function(
        "is_zero",
        {
            "test": ("31 c0", "85 ff", ("75", "no"), "ff c0"),  # xor eax; test edi; jnz; inc eax
            "no": ("c3",),
        },
    )
    return shared_library("libnumbers.so", code.finish(), ("__errno_location", "getpid"), data)


def test_functions_of_a_library_are_found_and_do_what_their_code_says(tmp_path: Path) -> None:
    path = tmp_path / "numbers.so"
    path.write_bytes(numbers(struct.pack("<q", -5)))
    library = ctypes.CDLL(str(path))
    library.data.restype = ctypes.c_long
    assert library.seven() == library.also_seven() == 7
    assert library.data() == -5
    assert library.imported() == ctypes.CDLL(None).getpid()
    assert [library.is_zero(number) for number in (0, 1)] == [1, 0]
    with pytest.raises(AttributeError, match="undefined symbol: eight"):
        _ = library.eight


def test_data_page_of_a_loaded_library_is_what_its_file_says_now(tmp_path: Path) -> None:
    path = tmp_path / "numbers.so"
    path.write_bytes(numbers())
    library = ctypes.CDLL(str(path))
    for value in (1, 2**30, 0):
        with path.open("r+b") as file:
            file.seek(DATA_AT)
            file.write(struct.pack("<q", value))
        assert library.data() == value


def test_no_part_is_both_writable_and_executable() -> None:
    content = numbers()
    assert len(content) == FILE_BYTES
    at, count = struct.unpack_from("<Q", content, 32)[0], struct.unpack_from("<H", content, 56)[0]
    kinds = [struct.unpack_from("<II", content, at + 56 * number) for number in range(count)]
    assert [flags for kind, flags in kinds if kind == 1] == [4, 5, 6, 4]
    assert [flags for kind, flags in kinds if kind == 0x6474E551] == [6]


def test_what_does_not_fit_into_its_page_is_refused() -> None:
    with pytest.raises(ValueError, match="4097 bytes do not fit into a page of 4096"):
        numbers(bytes(PAGE_BYTES + 1))


def test_jump_that_is_too_far_is_refused() -> None:
    blocks: dict[str, Sequence[Instruction]]
    blocks = {"a": (("74", "far"),), "b": ("90" * 200,), "far": ("c3",)}
    with pytest.raises(ValueError, match="200 bytes to far are too far for a jump"):
        Assembly(0).function("f", blocks)
    with pytest.raises(KeyError):
        Assembly(0).function("f", {"a": (("74", "nowhere"),)})
