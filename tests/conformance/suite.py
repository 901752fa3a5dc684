"""The client and its test suite: fetched, installed, and run with a conftest of ours."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
from dataclasses import dataclass
from pathlib import Path
from typing import Final

HERE: Final = Path(__file__).resolve().parent
VENV: Final = HERE.parents[1] / ".venv-conformance"
RUN_S_MAX: Final = 1500

_PYTEST_INI: Final = (
    "[pytest]\nasyncio_mode = auto\nasyncio_default_fixture_loop_scope = function\n"
)

_CONFTEST: Final = '''\
"""What the suite asks of its surroundings: a client, and where the broker is."""

import os

import pytest
import pytest_asyncio

from queen import Queen


@pytest.fixture
def urls():
    return os.environ["QUEEN_URLS"].split(",")


@pytest_asyncio.fixture
async def client(urls):
    queen = Queen(urls if len(urls) > 1 else urls[0])
    yield queen
    await queen.close()
'''


@dataclass(frozen=True, slots=True)
class Suite:
    """Where the suite lies.

    Attributes:
        python: An interpreter that has the client.
        folder: The unpacked tests, with the conftest.
    """

    python: Path
    folder: Path

    def run(self, urls: list[str], report: Path, extra: dict[str, str], *arguments: str) -> int:
        """Run the suite against nodes; returns pytest's exit status.

        Args:
            urls: The nodes' addresses.
            report: Where the outcome goes, as JUnit XML.
            extra: Further environment variables.
            arguments: For pytest.
        """
        environment = {
            **os.environ,
            "QUEEN_URLS": ",".join(urls),
            "QUEEN_SERVER_URL": urls[0],
            "QUEEN_URL": urls[0],
            **extra,
        }
        environment.pop("PYTHONPATH", None)
        command = [str(self.python), "-m", "pytest", "-q", "-p", "no:cacheprovider", "--tb=short"]
        command += [f"--junit-xml={report}", *arguments]
        with report.with_suffix(".txt").open("wb") as log:
            finished = subprocess.run(
                command,
                cwd=self.folder,
                env=environment,
                stdout=log,
                stderr=subprocess.STDOUT,
                timeout=RUN_S_MAX,
                check=False,
            )
        return finished.returncode


def fetch_suite(folder: Path) -> Suite:
    """Download the source distribution, install the client from it, unpack its tests."""
    python = _make_venv()
    _pip(
        "download", "--no-deps", "--no-binary", ":all:", "--require-hashes",
        "-r", str(HERE / "suite.lock"), "-d", str(folder),
    )  # fmt: skip
    (archive,) = folder.glob("queen_mq-*.tar.gz")
    _pip("install", "--no-deps", "--force-reinstall", str(archive))
    with tarfile.open(archive) as packed:
        packed.extractall(folder / "sdist", filter="data")
    (tests,) = (folder / "sdist").glob("*/tests")
    suite = tests.rename(folder / "suite")
    (suite / "conftest.py").write_text(_CONFTEST)
    (suite / "pytest.ini").write_text(_PYTEST_INI)
    return Suite(python, suite)


def streams_suite(suite: Suite, checkout: Path, folder: Path) -> Suite:
    """The client's streams tests, which its source distribution lacks.

    Args:
        suite: Has the client.
        checkout: A copy of Queen's repository.
        folder: Where to put them.
    """
    tests = checkout / "clients" / "client-py" / "tests" / "streams_integration"
    shutil.copytree(tests, folder / "streams" / tests.name)
    (folder / "streams" / "pytest.ini").write_text(_PYTEST_INI)
    return Suite(suite.python, folder / "streams")


def _make_venv() -> Path:
    python = VENV / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", str(VENV)], check=True)
    _pip("install", "--require-hashes", "-r", str(HERE / "client.lock"))
    return python


def _pip(*arguments: str) -> None:
    pip = [str(VENV / "bin" / "python"), "-m", "pip", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, *arguments], check=True)
