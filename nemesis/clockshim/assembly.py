"""Machine code put together from instructions in hexadecimal, labels, and jumps to them."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

Instruction = tuple[str, str | int] | str
"""Bytes in hexadecimal, alone or with what follows them: `(opcode, label)` is a jump by eight bits,
`(opcode, address)` an access or a call whose 32 bits are relative to the next instruction."""


@dataclass(frozen=True, slots=True)
class Code:
    """Finished code.

    Attributes:
        text: Its bytes.
        entries: Where each function begins in it, by name.
    """

    text: bytes
    entries: Mapping[str, int]


@dataclass(slots=True)
class Assembly:
    """Code in the making.

    Attributes:
        address: Where it will lie.
        text: What there is so far.
        entries: The functions so far.
    """

    address: int
    text: bytearray = field(default_factory=bytearray)
    entries: dict[str, int] = field(default_factory=dict)

    def function(self, name: str, blocks: Mapping[str, Sequence[Instruction]]) -> int:
        """Add a function of labelled blocks, in their order; returns its address.

        Raises:
            ValueError: A jump leads too far.
            KeyError: It leads to no block.
        """
        self.text += b"\xcc" * (-len(self.text) % 16)
        begin = self.entries[name] = len(self.text)
        labels: dict[str, int] = {}
        jumps: list[tuple[int, str]] = []
        for label, instructions in blocks.items():
            labels[label] = len(self.text)
            for each in instructions:
                opcode, operand = (each, None) if isinstance(each, str) else each
                self.text += bytes.fromhex(opcode)
                if isinstance(operand, str):
                    self.text.append(0)
                    jumps.append((len(self.text), operand))
                elif operand is not None:
                    after = self.address + len(self.text) + 4
                    self.text += struct.pack("<i", operand - after)
        for after, label in jumps:
            distance = labels[label] - after
            if not -128 <= distance <= 127:
                raise ValueError(f"{name}: {distance} bytes to {label} are too far for a jump")
            self.text[after - 1 : after] = struct.pack("<b", distance)
        return self.address + begin

    def finish(self) -> Code:
        """Return what was put together."""
        return Code(bytes(self.text), dict(self.entries))
