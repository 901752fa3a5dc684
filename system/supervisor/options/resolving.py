"""All sources made one set of options, with where each value came from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from .checks import find_conflicts, find_doubts
from .shapes import DriverOptions, MasterOptions, Options, PoolOptions
from .sources import KINDS, SECTIONS, Key, all_keys, gather
from .values import ValueRefusedError, convert


class OptionsError(ValueError):
    """Options that no supervisor may start with.

    Attributes:
        problems: One line each; all that were found.
    """

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = list(problems)


@dataclass(frozen=True, slots=True)
class Row:
    """One option as it was resolved.

    Attributes:
        key: The option.
        value: Its value.
        origin: `default`, `file`, `environment` or `flag`.
    """

    key: Key
    value: object
    origin: str


@dataclass(frozen=True, slots=True)
class Resolved:
    """What the sources come to.

    Attributes:
        options: The options; a value that was refused is at its default here.
        rows: Every option with its origin.
        problems: Why no supervisor may start with it, one line each.
        warnings: What is probably not meant, one line each.
    """

    options: Options
    rows: tuple[Row, ...]
    problems: tuple[str, ...]
    warnings: tuple[str, ...]

    def checked(self) -> Options:
        """Return the options.

        Raises:
            OptionsError: Some are refused.
        """
        if self.problems:
            raise OptionsError(self.problems)
        return self.options


def resolve(
    file: Path | None, environment: Mapping[str, str], flags: Sequence[str] = ()
) -> Resolved:
    """Read, merge and check all options.

    Args:
        file: A TOML file with tables `master`, `driver` and `pools.NAME`.
        environment: `ATLEASTONCE_MASTER_…`, `ATLEASTONCE_DRIVER_…`, `ATLEASTONCE_POOL_NAME_…`.
        flags: Each `KEY=VALUE`. They win over the environment, and that wins over the file.
    """
    sources = gather(file, environment, flags)
    problems, refused = list(sources.problems), set()
    rows = {key.path: Row(key, _default(key), "default") for key in all_keys(sources.pools)}
    for given in sources.given:
        path = given.key.path
        try:
            value = convert(given.value, given.key.kind)
        except ValueRefusedError as error:
            problems.append(f"{path} is {given.value!r} ({given.origin}): {error}")
            refused.add(path)
            continue
        rows[path] = Row(given.key, value, given.origin)
    options = _build(sources.pools, rows)
    problems += [line for paths, line in find_conflicts(options) if not refused.intersection(paths)]
    warnings = [line for _, line in find_doubts(options)]
    return Resolved(options, tuple(rows.values()), tuple(problems), tuple(warnings))


def _default(key: Key) -> object:
    field = next(f for f in msgspec.structs.fields(SECTIONS[key.section]) if f.name == key.name)
    return field.default


def _build(pools: Sequence[str], rows: Mapping[str, Row]) -> Options:
    def part(section: str, pool: str = "") -> dict[str, Any]:
        return {name: rows[Key(section, name, pool).path].value for name in KINDS[section]}

    return Options(
        master=MasterOptions(**part("master")),
        driver=DriverOptions(**part("driver")),
        pools={pool: PoolOptions(**part("pools", pool)) for pool in pools},
    )
