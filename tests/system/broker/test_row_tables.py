"""Every table of rows is documented, and no two share a key."""

from __future__ import annotations

from pathlib import Path

from atleastonce.system.broker import rows

FORMATS = Path(__file__).parents[3] / "docs" / "formats.md"


def tables() -> dict[str, bytes]:
    return {
        name: value
        for name, value in vars(rows).items()
        if name.isupper() and isinstance(value, bytes) and name != "PAYLOAD_PREFIX"
    }


def test_tables_have_letters_of_their_own() -> None:
    letters = list(tables().values())
    assert len(set(letters)) == len(letters) >= 18
    assert all(len(letter) == 2 and letter.endswith(b"/") for letter in letters)


def test_tables_are_documented() -> None:
    text = FORMATS.read_text(encoding="utf-8")
    missing = [name for name, key in tables().items() if f"| `{key.decode()}`" not in text]
    assert missing == []
