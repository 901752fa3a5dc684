"""Where options come from: a TOML file, then the environment, then flags; the later one wins."""

from __future__ import annotations

import difflib
import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, get_type_hints

import msgspec

from .shapes import DriverOptions, MasterOptions, PoolOptions
from .values import read_text

PREFIX: Final = "ATLEASTONCE_"
DEFAULT_POOL: Final = "default"

SECTIONS: Final[dict[str, type[msgspec.Struct]]] = {
    "master": MasterOptions,
    "driver": DriverOptions,
    "pools": PoolOptions,
}
KINDS: Final[dict[str, dict[str, Any]]] = {
    section: get_type_hints(shape, include_extras=True) for section, shape in SECTIONS.items()
}
_POOL_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")


@dataclass(frozen=True, slots=True)
class Key:
    """One option: its section, the pool if it is one's, its name."""

    section: str
    name: str
    pool: str = ""

    @property
    def path(self) -> str:
        """The key as the file and `--set` have it."""
        parts = (self.section, self.pool, self.name) if self.pool else (self.section, self.name)
        return ".".join(parts)

    @property
    def kind(self) -> Any:
        """The option's type."""
        return KINDS[self.section][self.name]

    @property
    def variable(self) -> str:
        """The option's variable in the environment."""
        return f"{_stem(self.section, self.pool)}{self.name.upper()}"


@dataclass(frozen=True, slots=True)
class Given:
    """A value that somebody gave.

    Attributes:
        key: The option.
        value: Not checked yet.
        origin: `file`, `environment` or `flag`.
    """

    key: Key
    value: object
    origin: str


@dataclass(slots=True)
class Sources:
    """What was given, in order of precedence, the least first.

    Attributes:
        given: The values.
        pools: Names of the pools, in order of declaration.
        problems: One line for each thing that is no option.
    """

    given: list[Given]
    pools: list[str]
    problems: list[str]


def gather(file: Path | None, environment: Mapping[str, str], flags: Sequence[str]) -> Sources:
    """Read all sources; whatever is no option is a problem.

    Args:
        file: The TOML file, if any.
        environment: Variables; those of other prefixes are left alone.
        flags: Each `KEY=VALUE`, the key as in the file: `master.app=…`, `pools.mail.queues=…`.
    """
    sources = Sources([], [], [])
    if file is not None:
        _read_file(sources, file)
    set_by_flag = _split_flags(sources, flags)
    for key, _ in set_by_flag:
        if key.pool and key.pool not in sources.pools:
            sources.pools.append(key.pool)
    if not sources.pools:
        sources.pools.append(DEFAULT_POOL)
    _check_stems(sources)
    _read_environment(sources, environment)
    for key, text in set_by_flag:
        sources.given.append(Given(key, read_text(text, key.kind), "flag"))
    return sources


def _read_file(sources: Sources, path: Path) -> None:
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        sources.problems.append(f"cannot read {path}: {error.strerror}")
        return
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        sources.problems.append(f"{path} is no TOML: {error}")
        return
    for section, inner in table.items():
        if section not in SECTIONS:
            sources.problems.append(
                f"{section!r} is no section{_near(section, SECTIONS)}; choose from: "
                f"{', '.join(SECTIONS)}"
            )
        elif not isinstance(inner, dict):
            sources.problems.append(f"{section} is {inner!r}; want a table")
        elif section != "pools":
            _take_table(sources, section, "", inner)
        else:
            for pool, options in inner.items():
                if not isinstance(options, dict):
                    sources.problems.append(f"pools.{pool} is {options!r}; want a table")
                elif _check_pool(sources, pool):
                    sources.pools.append(pool)
                    _take_table(sources, section, pool, options)


def _check_pool(sources: Sources, pool: str) -> bool:
    if _POOL_NAME.fullmatch(pool):
        return True
    sources.problems.append(
        f"pool name {pool!r} is not allowed; want 1 to 64 letters, digits, - or _, no - or _ first"
    )
    return False


def _check_stems(sources: Sources) -> None:
    first: dict[str, str] = {}
    for pool in sources.pools:
        other = first.setdefault(_stem("pools", pool), pool)
        if other != pool:
            sources.problems.append(
                f"pool names {other!r} and {pool!r} have the same variables, "
                f"{_stem('pools', pool)}…; name one otherwise"
            )


def _take_table(sources: Sources, section: str, pool: str, table: dict[str, object]) -> None:
    for name, value in table.items():
        key = Key(section, name, pool)
        if name in KINDS[section]:
            sources.given.append(Given(key, value, "file"))
        else:
            sources.problems.append(f"{key.path} is no option{_near(name, KINDS[section])}")


def _split_flags(sources: Sources, flags: Sequence[str]) -> list[tuple[Key, str]]:
    found = []
    for flag in flags:
        path, equals, text = flag.partition("=")
        key = _parse_path(path)
        if not equals:
            sources.problems.append(f"--set {flag!r} has no value; want KEY=VALUE")
        elif key is None or key.name not in KINDS[key.section]:
            names = KINDS[key.section] if key is not None else ()
            last = path.rpartition(".")[2]
            sources.problems.append(f"--set {path}: no such option{_near(last, names)}")
        elif not key.pool or key.pool in sources.pools or _check_pool(sources, key.pool):
            found.append((key, text))
    return found


def _parse_path(path: str) -> Key | None:
    words = path.split(".")
    if len(words) == 2 and words[0] in ("master", "driver"):
        return Key(words[0], words[1])
    if len(words) == 3 and words[0] == "pools":
        return Key("pools", words[2], words[1])
    return None


def _read_environment(sources: Sources, environment: Mapping[str, str]) -> None:
    stems = [("master", ""), ("driver", ""), *(("pools", pool) for pool in sources.pools)]
    # The longest stem first: a pool's name may begin with another's.
    stems.sort(key=lambda stem: -len(_stem(*stem)))
    for variable in sorted(environment):
        if not variable.startswith((f"{PREFIX}MASTER_", f"{PREFIX}DRIVER_", f"{PREFIX}POOL_")):
            continue
        for section, pool in stems:
            stem = _stem(section, pool)
            name = variable.removeprefix(stem).lower()
            if variable.startswith(stem) and name in KINDS[section]:
                key = Key(section, name, pool)
                text = read_text(environment[variable], key.kind)
                sources.given.append(Given(key, text, "environment"))
                break
        else:
            known = [key.variable for key in all_keys(sources.pools)]
            sources.problems.append(f"{variable}: no such option{_near(variable, known)}")


def _stem(section: str, pool: str) -> str:
    if not pool:
        return f"{PREFIX}{section.upper()}_"
    return f"{PREFIX}POOL_{re.sub('[^A-Z0-9]', '_', pool.upper())}_"


def all_keys(pools: Iterable[str]) -> list[Key]:
    """Return every option there is, for pools of these names."""
    keys = [Key(section, name) for section in ("master", "driver") for name in KINDS[section]]
    return keys + [Key("pools", name, pool) for pool in pools for name in KINDS["pools"]]


def _near(word: str, words: Iterable[str]) -> str:
    """Name what may have been meant."""
    near = difflib.get_close_matches(word, list(words), 1)
    return f"; did you mean {near[0]}?" if near else ""
