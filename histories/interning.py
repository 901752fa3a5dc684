"""Names as small integers, so that columns stay narrow."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


class _Numbers(dict[bytes, int]):
    """Gives a key that it does not hold the next number; hits cost no Python call."""

    def __missing__(self, key: bytes) -> int:
        number = self[key] = len(self)
        return number


class Names:
    """A growing list of distinct names and their numbers; about 170 bytes for a UUID."""

    def __init__(self, names: Iterable[str] = ()):
        self._numbers = _Numbers()
        self._keys: list[bytes] = []
        for name in names:
            self.number(name)

    def number(self, name: str) -> int:
        """Return the number of a name, giving it the next one when it is new."""
        return self._numbers[name.encode()]

    def numbers(self, keys: Iterable[bytes]) -> list[int]:
        """Return the numbers of many names, given as UTF-8."""
        return list(map(self._numbers.__getitem__, keys))

    def find(self, name: str) -> int | None:
        """Return the number of a name, or None."""
        return self._numbers.get(name.encode())

    def __getitem__(self, number: int) -> str:
        return self.keys[number].decode()

    def __len__(self) -> int:
        return len(self._numbers)

    @property
    def keys(self) -> Sequence[bytes]:
        """All names as UTF-8, by number."""
        if len(self._keys) != len(self._numbers):
            self._keys = list(self._numbers)
        return self._keys
