"""One target under atheris: `python -m tests.fuzz.harness TARGET CORPUS SECONDS`, or with one FILE.

Ends with status 0 when the time is over, and with another one as soon as an input does what it
must not: raise, take longer than `INPUT_S_MAX`, or more memory than `MEMORY_MIB_MAX`.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

import atheris

INPUT_S_MAX: Final = 10
INPUT_BYTES_MAX: Final = 16 * 1024
MEMORY_MIB_MAX: Final = 1024

with atheris.instrument_imports(include=["atleastonce"]):
    from .seeds import SEEDS
    from .targets import TARGETS


def main() -> None:
    """Fuzz one target, or run it once on the input in a file."""
    name, place, *rest = sys.argv[1:]
    target = TARGETS[name]
    if not rest:
        target(Path(place).read_bytes())
        return
    corpus = Path(place) / name
    corpus.mkdir(parents=True, exist_ok=True)
    for number, seed in enumerate(SEEDS[name]()):
        (corpus / f"seed-{number:03}").write_bytes(seed)
    findings = Path(place) / "findings"
    findings.mkdir(exist_ok=True)
    options = [
        f"-max_total_time={rest[0]}",
        f"-timeout={INPUT_S_MAX}",
        f"-rss_limit_mb={MEMORY_MIB_MAX}",
        f"-malloc_limit_mb={MEMORY_MIB_MAX // 2}",
        f"-max_len={INPUT_BYTES_MAX}",
        f"-artifact_prefix={findings}/{name}-",
        "-print_final_stats=1",
        "-verbosity=0",
    ]
    atheris.Setup([sys.argv[0], *options, str(corpus)], target)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
